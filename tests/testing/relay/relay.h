// A relay between stream sockets: who connects to it is connected to a server behind it, and what
// passes can be harmed while it passes. For tests of what a bad network does. It has a thread of
// its own; its methods may be called by one other at a time. Bytes that wait in it are bounded, and
// what it cannot take yet waits at the sender, as in a real network. It changes no byte and no
// order.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace muster::testing {

// What happens to all connections from now on.
struct RelayFaults {
  // Every byte arrives this much later.
  std::chrono::milliseconds delay{0};
  // In each direction, over all connections; 0: as many as there are.
  uint64_t bytes_per_second = 0;
  // Nothing arrives there; it waits, and arrives when the fault is over.
  bool hold_to_server = false;
  bool hold_to_client = false;
  // What is sent there, ends of connections included, is lost without a word. Connections that lost
  // something are cut when the fault is over.
  bool swallow_to_server = false;
  bool swallow_to_client = false;
  // New connections are closed at once.
  bool refuse = false;
};

struct RelayCounts {
  uint64_t accepted = 0;
  uint64_t refused = 0;
  uint64_t cut = 0;
  // Connections that exist now, replayed ones not counted.
  uint64_t open = 0;
  // Bytes that were handed on.
  uint64_t bytes_to_server = 0;
  uint64_t bytes_to_client = 0;
  // Bytes that wait in the relay.
  uint64_t held_bytes = 0;
  uint64_t swallowed_bytes = 0;
  // Connections that Record has begun to record.
  uint64_t recorded = 0;
  // Recorded connections whose bytes were all sent again and answered or refused by the server.
  uint64_t replayed = 0;
};

class Relay {
 public:
  enum class Cut {
    // Both ends see an orderly end.
    kClose,
    // Over TCP both ends see a reset. Unix sockets only know it when bytes were left unread.
    kReset,
  };
  // Largest number of connections that are recorded, and of bytes of each; longer ones are replayed
  // up to there, as if they had been cut.
  static constexpr size_t kMostRecordings = 64;
  static constexpr size_t kMostRecordedBytes = size_t{1} << 20;

  // Addresses are `unix:/path` or `127.0.0.1:port`; port 0 takes a free one. Listens when it
  // returns; a failure of the test when it cannot. The server need not be there yet.
  Relay(const std::string& listen, const std::string& server);
  // Ends all connections.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Where it listens.
  const std::string& address() const { return address_; }

  // Replaces all faults. What waits already keeps the delay it had.
  void Set(const RelayFaults& faults);
  // Ends all connections now; what waits in the relay is lost. Returns when it is done.
  void CutAll(Cut how = Cut::kReset);
  // Keeps what clients send over connections that are made from now on.
  void Record();
  // Sends to the server, over new connections, what was recorded so far, whole and at once: a
  // network that delivers a second time. Answers are read and dropped. The connections end with the
  // server's end, CutAll, or the relay. Returns how many there are.
  uint64_t Replay();
  RelayCounts counts() const;

 private:
  class Loop;

  std::string address_;
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace muster::testing
