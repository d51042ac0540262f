// Asks the container engines of the node whether they work for the user of a job: a program may be
// there whose daemon is not. Each is asked by a probe, with a time limit, the second only when the
// first is of no use. Lives on the loop thread; never blocks.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/checks/probe_process.h"
#include "agent/core/container.h"

namespace muster {

// How long one engine may take to answer.
inline constexpr std::chrono::seconds kEngineLimit{5};

class EngineProbe {
 public:
  // `environment`: the agent's. `probes` outlives this.
  EngineProbe(ProbeRunner& probes, std::vector<std::string> environment)
      : probes_(probes), environ_(std::move(environment)) {}

  // Sets `refusal` of the engines of `found` that the container of `launch` could run on and that
  // do not work. `done` is called once, at once when there is nothing to ask.
  void Ask(ContainerHost found, const v1::LaunchSpec& launch, const RunAs& user,
           std::function<void(ContainerHost)> done);

 private:
  struct Question;
  void AskNext(const std::shared_ptr<Question>& question);

  ProbeRunner& probes_;
  const std::vector<std::string> environ_;
};

// What is wrong with an engine that was asked, with what to do; empty: nothing. Pure.
std::string RefusalOf(const std::string& engine, const RunAs& user, const ProbeAnswer& answer);

}  // namespace muster
