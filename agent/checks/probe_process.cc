#include "agent/checks/probe_process.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "common/base/annotate.h"
#include "common/io/record_log.h"

namespace muster {
namespace {

// More than this hang, or are asked for by somebody who means no good.
constexpr int kMostProcesses = 16;
constexpr size_t kMaxReceivedBytes = size_t{4} << 20;

}  // namespace

ProbeRunner::~ProbeRunner() {
  for (auto& [id, probe] : probes_) {
    loop_.Cancel(probe.timer);
    if (probe.input) loop_.UnwatchFd(probe.input.get());
    loop_.UnwatchFd(probe.output.get());
    // It leads a group of its own, with what it has started.
    if (!probe.gone) (void)::kill(-probe.pid, SIGKILL);
  }
}

void ProbeRunner::Run(internal::ProbeRequest request, std::chrono::milliseconds limit, Done done) {
  const auto refuse = [this, &done](std::string why) {
    loop_.Post([done = std::move(done), why = std::move(why), alive = std::weak_ptr<int>(alive_)] {
      if (!alive.expired()) done({.replies = {}, .complete = false, .error = why});
    });
  };
  if (processes_ >= kMostProcesses) return refuse("earlier checks of this node hang");
  request.set_limit_ms(static_cast<uint64_t>(limit.count()));
  absl::StatusOr<SpawnedShim> shim =
      SpawnShim({.binary = binary_, .environ = environ_, .arguments = {"--probe"}});
  if (!shim.ok()) return refuse(std::string(MessageOf(shim.status())));
  ++processes_;
  const Id id = ++last_id_;
  reaper_.Watch(shim->pid, std::move(shim->pidfd), [this, id](int) {
    --processes_;
    const auto found = probes_.find(id);
    if (found != probes_.end()) found->second.gone = true;
  });
  Probe& probe = probes_[id];
  probe.pid = shim->pid;
  probe.input = std::move(shim->bootstrap);
  probe.output = std::move(shim->ready);
  probe.request = request.SerializeAsString();
  probe.done = std::move(done);
  probe.timer = loop_.PostAfter(limit, [this, id] { Finish(id); });
  loop_.WatchFd(probe.output.get(), EPOLLIN, [this, id](uint32_t) { Read(id); });
  loop_.WatchFd(probe.input.get(), EPOLLOUT, [this, id](uint32_t) { Write(id); });
}

void ProbeRunner::Write(Id id) {
  Probe& probe = probes_.at(id);
  while (probe.sent < probe.request.size()) {
    const ssize_t count = ::write(probe.input.get(), probe.request.data() + probe.sent,
                                  probe.request.size() - probe.sent);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) break;  // It has ended; its output says what is known.
    probe.sent += static_cast<size_t>(count);
  }
  loop_.UnwatchFd(probe.input.get());
  probe.input.Reset();
  probe.request = std::string();
}

void ProbeRunner::Read(Id id) {
  Probe& probe = probes_.at(id);
  char chunk[64 * 1024];
  const ssize_t count = ::read(probe.output.get(), chunk, sizeof(chunk));
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count <= 0) return Finish(id);
  probe.received.append(chunk, static_cast<size_t>(count));
  if (probe.received.size() > kMaxReceivedBytes) return Finish(id);
  std::string_view left = probe.received;
  while (const std::optional<std::string_view> record = TakeRecord(left)) {
    internal::ProbeReply reply;
    if (!reply.ParseFromArray(record->data(), static_cast<int>(record->size()))) continue;
    if (reply.done()) probe.answer.complete = true;
    probe.answer.replies.push_back(std::move(reply));
  }
  probe.received.erase(0, probe.received.size() - left.size());
  if (probe.answer.complete) Finish(id);
}

void ProbeRunner::Finish(Id id) {
  auto node = probes_.extract(id);
  if (node.empty()) return;
  Probe& probe = node.mapped();
  loop_.Cancel(probe.timer);
  if (probe.input) loop_.UnwatchFd(probe.input.get());
  loop_.UnwatchFd(probe.output.get());
  // Also one that has told everything: a program that it ran may have left something behind.
  if (!probe.gone) (void)::kill(-probe.pid, SIGKILL);
  loop_.Post([done = std::move(probe.done), answer = std::move(probe.answer),
              alive = std::weak_ptr<int>(alive_)]() mutable {
    if (!alive.expired()) done(std::move(answer));
  });
}

}  // namespace muster
