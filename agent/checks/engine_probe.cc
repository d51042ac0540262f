#include "agent/checks/engine_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "agent/core/compose.h"

namespace muster {
namespace {

// Says of docker whether its daemon answers, and of podman whether its storage and its runtime can
// be used. What docker's other commands for that exist in the docker that podman brings, too.
constexpr std::string_view kDockerCommand = "version";
constexpr std::string_view kPodmanCommand = "info";

internal::ProbeRequest RequestFor(const std::string& name, const std::string& program,
                                  const std::string& runtime, const RunAs& user,
                                  const VariableMap& env) {
  internal::ProbeRequest request;
  internal::ShimBootstrap& bootstrap = *request.mutable_bootstrap();
  bootstrap.set_working_directory("/");
  if (!user.self) {
    internal::ShimRunAs& run_as = *bootstrap.mutable_run_as();
    run_as.set_name(user.name);
    run_as.set_uid(user.uid);
    run_as.set_gid(user.gid);
    for (const gid_t group : user.groups) run_as.add_groups(group);
  }
  internal::ShimRank& rank = *bootstrap.add_ranks();
  for (const auto& [key, value] : env) rank.add_env(fmt::format("{}={}", key, value));
  internal::ProbeProgram& asked = *request.add_programs();
  asked.set_name(name);
  asked.add_argv(program);
  const bool podman = name == "podman";
  if (podman && !runtime.empty()) asked.add_argv(fmt::format("--runtime={}", runtime));
  asked.add_argv(std::string(podman ? kPodmanCommand : kDockerCommand));
  return request;
}

}  // namespace

struct EngineProbe::Question {
  ContainerHost host;
  std::string runtime;
  RunAs user;
  VariableMap env;
  // Names of those that are still to be asked, the next one last.
  std::vector<std::string> engines;
  std::function<void(ContainerHost)> done;
};

void EngineProbe::Ask(ContainerHost found, const v1::LaunchSpec& launch, const RunAs& user,
                      std::function<void(ContainerHost)> done) {
  const auto question = std::make_shared<Question>();
  question->host = std::move(found);
  question->runtime = launch.container().runtime();
  question->user = user;
  question->env = EngineEnvironment(environ_, user);
  question->done = std::move(done);
  const std::string& wanted = launch.container().engine();
  for (const char* name : {"podman", "docker"}) {
    if (wanted.empty() || wanted == name) question->engines.emplace_back(name);
  }
  AskNext(question);
}

void EngineProbe::AskNext(const std::shared_ptr<Question>& question) {
  while (!question->engines.empty()) {
    const std::string name = std::move(question->engines.back());
    question->engines.pop_back();
    ContainerHost::Engine& engine =
        name == "podman" ? question->host.podman : question->host.docker;
    if (engine.program.empty()) continue;
    return probes_.Run(
        RequestFor(name, engine.program, question->runtime, question->user, question->env),
        kEngineLimit, [this, question, name, &engine](const ProbeAnswer& answer) {
          engine.refusal = RefusalOf(name, question->user, answer);
          // The first that works is taken.
          if (engine.refusal.empty()) question->engines.clear();
          AskNext(question);
        });
  }
  question->done(std::move(question->host));
}

std::string RefusalOf(const std::string& engine, const RunAs& user, const ProbeAnswer& answer) {
  std::string reason = answer.error;
  bool answered = false;
  for (const internal::ProbeReply& reply : answer.replies) {
    if (reply.has_error()) reason = reply.error();
    if (!reply.has_program()) continue;
    answered = true;
    reason = reply.program().reason();
  }
  if (answered && reason.empty()) return "";
  if (reason.empty()) reason = fmt::format("no answer within {} s", kEngineLimit.count());
  const std::string as_user = user.self ? "" : fmt::format(" as user {}", user.name);
  if (engine == "podman") {
    return fmt::format("{} (run \"podman info\"{} on this node, and repair what it tells)", reason,
                       as_user);
  }
  return fmt::format(
      "{} (start its daemon, \"systemctl start docker\", and let its users be members of the group "
      "docker; then \"docker version\"{} tells of a server)",
      reason, as_user);
}

}  // namespace muster
