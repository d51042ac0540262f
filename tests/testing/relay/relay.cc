#include "tests/testing/relay/relay.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <vector>

#include "common/io/unique_fd.h"
#include "tests/testing/relay/relay_connection.h"
#include "tests/testing/relay/relay_socket.h"

namespace muster::testing {

using Clock = std::chrono::steady_clock;

// The thread, and what others ask of it.
class Relay::Loop {
 public:
  Loop(std::string& address, std::string server)
      : listener_(ListenAt(address)),
        server_(std::move(server)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void Run();

  // From other threads. Returns when the loop has heard it.
  template <typename Request>
  void Ask(const Request& request) {
    std::unique_lock lock(mutex_);
    const uint64_t turn = ++asked_;
    request(*this);
    (void)::eventfd_write(wake_.get(), 1);
    heard_.wait(lock, [&] { return done_ >= turn; });
  }
  RelayCounts counts() {
    std::lock_guard lock(mutex_);
    return told_;
  }
  // Of the last Replay that was asked for.
  uint64_t replays_begun() {
    std::lock_guard lock(mutex_);
    return replays_begun_;
  }

  // Set by Ask.
  RelayFaults wanted_faults;
  std::optional<Cut> wanted_cut;
  bool wanted_recording = false;
  bool wanted_replay = false;
  bool wanted_end = false;

 private:
  // Does what was asked for, and tells what was counted. False: to end.
  bool Hear();
  void Tell();
  void Accept();
  void Replay();
  void CutAll(Cut how);
  void CutLossy();

  UniqueFd listener_;
  const std::string server_;
  UniqueFd wake_;
  std::mutex mutex_;
  std::condition_variable heard_;
  uint64_t asked_ = 0;
  uint64_t done_ = 0;
  RelayCounts told_;
  uint64_t replays_begun_ = 0;

  // The thread's own.
  RelayFaults faults_;
  bool recording_ = false;
  RelayCounts counts_;
  RelayConnection::Allowances allowances_;
  std::list<RelayConnection> connections_;
  std::vector<std::shared_ptr<std::string>> recordings_;
};

bool Relay::Loop::Hear() {
  std::lock_guard lock(mutex_);
  eventfd_t news = 0;
  (void)::eventfd_read(wake_.get(), &news);
  faults_ = wanted_faults;
  recording_ = wanted_recording;
  CutLossy();
  if (wanted_cut) CutAll(*wanted_cut);
  wanted_cut.reset();
  if (wanted_replay) Replay();
  wanted_replay = false;
  Tell();
  done_ = asked_;
  heard_.notify_all();
  return !wanted_end;
}

void Relay::Loop::Tell() {
  counts_.open = 0;
  counts_.held_bytes = 0;
  for (const RelayConnection& connection : connections_) {
    if (connection.is_replay()) continue;
    ++counts_.open;
    counts_.held_bytes += connection.held_bytes();
  }
  told_ = counts_;
}

void Relay::Loop::Run() {
  while (Hear()) {
    RelayTime now = Clock::now();
    RelayTime wake = RelayTime::max();
    allowances_.to_server.Refill(faults_.bytes_per_second, now);
    allowances_.to_client.Refill(faults_.bytes_per_second, now);
    std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const RelayConnection& connection : connections_) {
      connection.Poll(faults_, allowances_, now, polled, wake);
    }
    int timeout_ms = -1;
    if (wake != RelayTime::max()) {
      timeout_ms =
          static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(wake - now).count());
    }
    (void)::poll(polled.data(), polled.size(), timeout_ms);
    now = Clock::now();
    const pollfd* entry = polled.data() + 2;
    for (auto it = connections_.begin(); it != connections_.end(); entry += 2) {
      const bool goes_on = it->Move(faults_, allowances_, now, entry, counts_);
      it = goes_on ? std::next(it) : connections_.erase(it);
    }
    // Whoever is first takes what a slow line has: everybody in turn.
    if (!connections_.empty()) {
      connections_.splice(connections_.end(), connections_, connections_.begin());
    }
    if (polled[1].revents != 0) Accept();
  }
  connections_.clear();
}

void Relay::Loop::Accept() {
  while (true) {
    UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client) return;
    UniqueFd server = faults_.refuse ? UniqueFd() : ConnectTo(server_);
    if (!server) {
      ++counts_.refused;
      continue;
    }
    ++counts_.accepted;
    std::shared_ptr<std::string> recording;
    if (recording_ && recordings_.size() < kMostRecordings) {
      recording = recordings_.emplace_back(std::make_shared<std::string>());
      ++counts_.recorded;
    }
    connections_.emplace_back(std::move(client), std::move(server), std::move(recording));
  }
}

void Relay::Loop::Replay() {
  replays_begun_ = 0;
  for (const auto& recording : recordings_) {
    UniqueFd server = ConnectTo(server_);
    if (recording->empty() || !server) continue;
    connections_.emplace_back(std::move(server), *recording, Clock::now());
    ++replays_begun_;
  }
}

void Relay::Loop::CutAll(Cut how) {
  for (RelayConnection& connection : connections_) connection.Cut(how);
  counts_.cut += connections_.size();
  connections_.clear();
}

// Those that lost something, once nothing is lost any more.
void Relay::Loop::CutLossy() {
  if (faults_.swallow_to_server || faults_.swallow_to_client) return;
  counts_.cut += std::erase_if(connections_, [](RelayConnection& connection) {
    if (connection.lossy()) connection.Cut(Cut::kReset);
    return connection.lossy();
  });
}

Relay::Relay(const std::string& listen, const std::string& server)
    : address_(listen), loop_(std::make_unique<Loop>(address_, server)) {
  thread_ = std::thread([this] { loop_->Run(); });
}

Relay::~Relay() {
  loop_->Ask([](Loop& loop) { loop.wanted_end = true; });
  thread_.join();
  if (address_.starts_with("unix:")) ::unlink(address_.c_str() + 5);
}

void Relay::Set(const RelayFaults& faults) {
  loop_->Ask([&](Loop& loop) { loop.wanted_faults = faults; });
}

void Relay::CutAll(Cut how) {
  loop_->Ask([&](Loop& loop) { loop.wanted_cut = how; });
}

void Relay::Record() {
  loop_->Ask([](Loop& loop) { loop.wanted_recording = true; });
}

uint64_t Relay::Replay() {
  loop_->Ask([](Loop& loop) { loop.wanted_replay = true; });
  return loop_->replays_begun();
}

RelayCounts Relay::counts() const { return loop_->counts(); }

}  // namespace muster::testing
