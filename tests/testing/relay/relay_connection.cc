#include "tests/testing/relay/relay_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "tests/testing/relay/relay_socket.h"

namespace muster::testing {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;

RelayFlow::Fate ToServer(const RelayFaults& faults) {
  return {faults.delay, faults.hold_to_server, faults.swallow_to_server};
}

RelayFlow::Fate ToClient(const RelayFaults& faults) {
  return {faults.delay, faults.hold_to_client, faults.swallow_to_client};
}

// Without interest in anything, an end of the other side is not heard either: it would be told
// again and again.
pollfd Entry(int fd, bool read, bool write) {
  const auto events = static_cast<short>((read ? POLLIN : 0) | (write ? POLLOUT : 0));
  return {events == 0 ? -1 : fd, events, 0};
}

bool CanRead(const pollfd& entry) {
  return (entry.events & POLLIN) != 0 && (entry.revents & (POLLIN | POLLHUP | POLLERR)) != 0;
}

bool CanWrite(const pollfd& entry) {
  return (entry.events & POLLOUT) != 0 && (entry.revents & (POLLOUT | POLLHUP | POLLERR)) != 0;
}

}  // namespace

void RelayAllowance::Refill(uint64_t rate, RelayTime now) {
  const std::chrono::duration<double> passed = now - filled_;
  filled_ = now;
  if (rate != std::exchange(rate_, rate)) {
    tokens_ = 0;
    return;
  }
  // What a slow line could not use is not saved up.
  const double most = std::max(1.0, static_cast<double>(rate) / 50);
  tokens_ = std::min(most, tokens_ + passed.count() * static_cast<double>(rate));
}

RelayTime RelayAllowance::next() const {
  const std::chrono::duration<double> wait(
      rate_ == 0 ? 0 : std::max(0.0, 1 - tokens_) / static_cast<double>(rate_));
  return filled_ + std::chrono::ceil<std::chrono::milliseconds>(wait);
}

bool RelayFlow::WantsToWrite(const Fate& fate, const RelayAllowance& allowance, RelayTime now,
                             RelayTime& wake) const {
  if (waiting_.empty() || fate.hold || fate.swallow) return false;
  const RelayTime when = std::max(waiting_.front().due, allowance.next());
  if (when <= now) return true;
  wake = std::min(wake, when);
  return false;
}

bool RelayFlow::Read(int fd, const Fate& fate, RelayTime now, std::string* recording,
                     RelayCounts& counts) {
  std::string bytes(kReadBytes, '\0');
  const ssize_t count = ::recv(fd, bytes.data(), bytes.size(), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  bytes.resize(static_cast<size_t>(count));
  read_all_ = bytes.empty();
  if (recording != nullptr) {
    recording->append(bytes, 0, Relay::kMostRecordedBytes - recording->size());
  }
  if (fate.swallow) {
    lossy_ = true;
    counts.swallowed_bytes += bytes.size();
    return true;
  }
  Put(std::move(bytes), now + fate.delay);
  return true;
}

void RelayFlow::Put(std::string bytes, RelayTime due) {
  held_bytes_ += bytes.size();
  // In order, also when the delay was made shorter.
  if (!waiting_.empty()) due = std::max(due, waiting_.back().due);
  waiting_.push_back({due, std::move(bytes)});
}

bool RelayFlow::Write(int fd, RelayAllowance& allowance, RelayTime now, uint64_t& passed) {
  while (!waiting_.empty() && waiting_.front().due <= now) {
    Chunk& chunk = waiting_.front();
    if (chunk.bytes.empty()) {
      // Nothing follows. Fails when the other side is gone, which is noticed by reading.
      (void)::shutdown(fd, SHUT_WR);
      finished_ = true;
      waiting_.pop_front();
      return true;
    }
    const size_t most = std::min(chunk.bytes.size() - chunk.written, allowance.bytes());
    if (most == 0) return true;
    const ssize_t count = ::send(fd, chunk.bytes.data() + chunk.written, most, MSG_NOSIGNAL);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    allowance.Take(static_cast<size_t>(count));
    passed += static_cast<uint64_t>(count);
    held_bytes_ -= static_cast<size_t>(count);
    chunk.written += static_cast<size_t>(count);
    if (chunk.written == chunk.bytes.size()) waiting_.pop_front();
  }
  return true;
}

void RelayFlow::Drop(RelayCounts& counts) {
  if (waiting_.empty()) return;
  lossy_ = true;
  counts.swallowed_bytes += std::exchange(held_bytes_, 0);
  waiting_.clear();
}

RelayConnection::RelayConnection(UniqueFd server, std::string bytes, RelayTime now)
    : server_(std::move(server)) {
  if (!bytes.empty()) to_server_.Put(std::move(bytes), now);
}

void RelayConnection::Poll(const RelayFaults& faults, const Allowances& allowances, RelayTime now,
                           std::vector<pollfd>& polled, RelayTime& wake) const {
  if (is_replay()) {
    polled.push_back({-1, 0, 0});
    polled.push_back(Entry(server_.get(), true, !to_server_.empty()));
    return;
  }
  const RelayFlow::Fate up = ToServer(faults);
  const RelayFlow::Fate down = ToClient(faults);
  polled.push_back(Entry(client_.get(), to_server_.WantsToRead(up),
                         to_client_.WantsToWrite(down, allowances.to_client, now, wake)));
  polled.push_back(Entry(server_.get(), to_client_.WantsToRead(down),
                         to_server_.WantsToWrite(up, allowances.to_server, now, wake)));
}

bool RelayConnection::Move(const RelayFaults& faults, Allowances& allowances, RelayTime now,
                           const pollfd* polled, RelayCounts& counts) {
  if (is_replay()) return MoveReplay(allowances, now, polled, counts);
  const RelayFlow::Fate up = ToServer(faults);
  const RelayFlow::Fate down = ToClient(faults);
  if (up.swallow) to_server_.Drop(counts);
  if (down.swallow) to_client_.Drop(counts);
  std::string* recording = recording_.get();
  const bool works =
      (!CanRead(polled[0]) || to_server_.Read(client_.get(), up, now, recording, counts)) &&
      (!CanRead(polled[1]) || to_client_.Read(server_.get(), down, now, nullptr, counts)) &&
      (!CanWrite(polled[0]) ||
       to_client_.Write(client_.get(), allowances.to_client, now, counts.bytes_to_client)) &&
      (!CanWrite(polled[1]) ||
       to_server_.Write(server_.get(), allowances.to_server, now, counts.bytes_to_server));
  if (!works) Cut(Relay::Cut::kReset);
  return works && !(to_server_.finished() && to_client_.finished());
}

bool RelayConnection::MoveReplay(Allowances& allowances, RelayTime now, const pollfd* polled,
                                 RelayCounts& counts) {
  bool works = true;
  if (CanWrite(polled[1])) {
    uint64_t again = 0;
    works = to_server_.Write(server_.get(), allowances.to_server, now, again);
  }
  if (works && CanRead(polled[1])) {
    char answer[4096];
    const ssize_t count = ::recv(server_.get(), answer, sizeof(answer), 0);
    answered_ = answered_ || count > 0;
    works = count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
  }
  const bool done = answered_ && to_server_.empty();
  if ((done || !works) && !std::exchange(replay_counted_, true)) ++counts.replayed;
  return works;
}

void RelayConnection::Cut(Relay::Cut how) {
  for (UniqueFd* fd : {&client_, &server_}) {
    if (*fd && how == Relay::Cut::kReset) ResetAtClose(fd->get());
  }
}

}  // namespace muster::testing
