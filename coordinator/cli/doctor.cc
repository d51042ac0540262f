#include "coordinator/daemon/doctor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"

namespace muster {
namespace {

constexpr int kExitSomethingFails = 1;

std::string Absolute(const std::string& path) {
  std::array<char, 4096> directory;
  if (path.empty() || path.front() == '/' ||
      ::getcwd(directory.data(), directory.size()) == nullptr) {
    return path;
  }
  return fmt::format("{}/{}", directory.data(), path);
}

}  // namespace

int RunDoctor(Arguments arguments, Reporter& reporter) {
  ServiceOptions options = DefaultServiceOptions();
  bool json = false;
  Flags flags("doctor [flags]",
              "Looks at what a coordinator needs, whether it runs or not, and says what does not "
              "work and what to do about it. Changes nothing. Ends with 0 when nothing has failed, "
              "else with 1. On a node: agent doctor.");
  flags.Text("state-dir", "DIR", &options.state_directory, "the same as of `serve`");
  flags.Text("socket", "PATH", &options.socket, "the same as of `serve`");
  flags.Text("listen", "HOST:PORT", &options.listen, "the same as of `serve`");
  AddOutputFlag(flags, &json);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  if (options.state_directory.empty()) {
    reporter.Say("there is no default place for the state here: give --state-dir DIR");
    return kExitUsage;
  }
  options.state_directory = Absolute(options.state_directory);
  options.socket = Absolute(options.socket);
  const Findings findings = ExamineCoordinator(options);
  const int printed =
      PrintResult(json ? FindingsToJson(findings) : RenderFindings(findings), reporter);
  if (printed != 0) return printed;
  return AllWork(findings) ? 0 : kExitSomethingFails;
}

}  // namespace muster
