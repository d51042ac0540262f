// Starts probes (agent/shim/probe.h) and hears what they tell. One that is late is killed with all
// that it has started; one that cannot be killed, because a file server does not answer, is left to
// the kernel and counts until it is gone. Lives on the loop thread; never blocks.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/supervise/shim_process.h"
#include "common/io/event_loop.h"
#include "muster/internal/probe.pb.h"

namespace muster {

struct ProbeAnswer {
  // What was told, in order; what was asked and is not among it is not known.
  std::vector<internal::ProbeReply> replies;
  // Everything was told.
  bool complete = false;
  // Why no probe could be started; empty otherwise.
  std::string error;
};

class ProbeRunner {
 public:
  using Done = std::function<void(ProbeAnswer)>;

  // `shim_binary`: path of muster-shim; `environment`: its own, not that of what it looks at.
  ProbeRunner(EventLoop& loop, std::string shim_binary, std::vector<std::string> environment)
      : loop_(loop),
        binary_(std::move(shim_binary)),
        environ_(std::move(environment)),
        reaper_(loop) {}
  // Kills what runs; nobody is answered.
  ~ProbeRunner();
  ProbeRunner(const ProbeRunner&) = delete;
  ProbeRunner& operator=(const ProbeRunner&) = delete;

  // `done` is called later, once, within `limit`.
  void Run(internal::ProbeRequest request, std::chrono::milliseconds limit, Done done);

 private:
  struct Probe {
    pid_t pid = 0;
    UniqueFd input;
    UniqueFd output;
    std::string request;
    size_t sent = 0;
    std::string received;
    ProbeAnswer answer;
    Executor::TimerId timer = 0;
    // It has ended, and its number is not its own any more.
    bool gone = false;
    Done done;
  };
  using Id = uint64_t;

  void Write(Id id);
  void Read(Id id);
  // Answers; kills the process unless it has told everything.
  void Finish(Id id);

  EventLoop& loop_;
  const std::string binary_;
  const std::vector<std::string> environ_;
  ChildReaper reaper_;
  Id last_id_ = 0;
  std::map<Id, Probe> probes_;
  // Processes that were started and are not gone.
  int processes_ = 0;
  // Posted tasks look here whether this object still lives.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace muster
