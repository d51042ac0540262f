// The shim's Unix socket: takes requests of the agent and sends it records. One agent is attached
// at a time, the newest wins. Sending never waits: a slow agent is behind, and is sent the rest
// when it reads. Lives on the shim's only thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "agent/shim/poller.h"
#include "agent/shim/record_journal.h"
#include "common/io/unique_fd.h"
#include "muster/internal/shim.pb.h"

namespace muster::shim {

class AgentLink {
 public:
  using RequestHandler = std::function<void(const internal::ShimRequest&)>;

  // `journal` and `poller` must live longer. `handler` gets every request but `attach`, in order.
  AgentLink(Poller& poller, RecordJournal& journal, RequestHandler handler);
  ~AgentLink();
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  // Makes `directory`/sock, mode 0600, and listens. The directory may have a path of any length.
  // Empty on success.
  std::string Listen(const std::string& directory);

  // Sends flushed records that the attached agent has not been sent, as many as go without waiting.
  void SendRecords();

  // Sends what is no record now; false: it was not sent. Without an agent, or while it does not
  // read, CanSend is false; the loop turns when that changes.
  bool Send(const internal::ShimRecord& packet);
  bool CanSend() const { return agent_.valid() && !waits_for_room_; }

  bool attached() const { return agent_.valid(); }
  // How often an agent has attached.
  uint64_t attaches() const { return attaches_; }

 private:
  bool SendPacket(std::string_view packet);
  void Accept();
  void OnReadable(bool from_candidate);
  void WatchAgent(bool for_room);
  bool Receive(int fd, internal::ShimRequest& request, bool& closed);
  void Attach(uint64_t next_index);
  void DropCandidate();
  void DropAgent();

  Poller& poller_;
  RecordJournal& journal_;
  RequestHandler handler_;
  UniqueFd listener_;
  // Connected, but has not said `attach`: it displaces nobody before it does.
  UniqueFd candidate_;
  UniqueFd agent_;
  uint64_t next_index_ = 1;
  uint64_t attaches_ = 0;
  bool waits_for_room_ = false;
};

}  // namespace muster::shim
