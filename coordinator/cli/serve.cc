#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/annotate.h"
#include "common/base/signal_names.h"
#include "common/base/version.h"
#include "common/io/service_notify.h"
#include "common/log/log.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/signals.h"
#include "coordinator/daemon/service.h"
#include "coordinator/daemon/settings.h"

namespace muster {
namespace {

// What is not given back by then is given back by the kernel.
constexpr unsigned kEndLimitSeconds = 10;

std::string Absolute(const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  char directory[4096];
  if (::getcwd(directory, sizeof directory) == nullptr) return path;
  return fmt::format("{}/{}", directory, path);
}

// A service manager need not try again what only a person can mend.
int StartFailure(const absl::Status& status) {
  const bool for_a_person = absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
                            absl::IsNotFound(status) || absl::IsPermissionDenied(status) ||
                            absl::IsDataLoss(status);
  return for_a_person ? kExitUsage : kExitNoCoordinator;
}

// Says ready to a service manager, keeps its watchdog content, and goes away on the loop.
class Notifier {
 public:
  explicit Notifier(Service& service) : loop_(service.loop()) {
    std::vector<std::string> environment;
    for (char** one = environ; *one != nullptr; ++one) environment.emplace_back(*one);
    loop_.Post([this, &service, manager = ServiceNotify::TakenFrom(environment, ::getpid())] {
      notify_ = std::make_unique<ServiceNotify>(loop_, manager);
      notify_->Ready([&service] { return service.Status(); });
    });
  }
  ~Notifier() {
    std::promise<void> gone;
    loop_.Post([&] {
      notify_->Stopping();
      notify_.reset();
      gone.set_value();
    });
    gone.get_future().wait();
  }
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

 private:
  EventLoop& loop_;
  std::unique_ptr<ServiceNotify> notify_;
};

}  // namespace

int RunServe(Arguments arguments, Reporter& reporter) {
  const ServiceOptions defaults = DefaultServiceOptions();
  Flags flags("serve [flags]",
              "Runs the coordinator until SIGTERM. Agents and commands of the same user reach it\n"
              "through its Unix socket. Jobs do not end with it: started again on the same state\n"
              "directory it goes on with them. Logs to stderr (level: MUSTER_LOG).");
  GivenFlags given;
  std::optional<std::string> file;
  bool check = false;
  const auto keep = [&given](const char* key) {
    return [&given, key](std::string_view value) -> std::string {
      given[key] = {std::string(value)};
      return "";
    };
  };
  flags.Value("state-dir", "DIR", keep("state_dir"),
              fmt::format("jobs and their output (default {})", defaults.state_directory));
  flags.Value(
      "socket", "PATH", keep("socket"),
      fmt::format("where to listen (default {})",
                  defaults.socket.empty() ? "none: XDG_RUNTIME_DIR is not set" : defaults.socket));
  flags.Value("socket-group", "GROUP", keep("socket_group"),
              "whose members may submit jobs through the socket, each under the own name (default: "
              "only this user and root)");
  flags.Value("listen", "HOST:PORT", keep("listen"),
              "where agents and users of the network reach it, once `coordinator init` has made a "
              "cluster (default :7443, every address); empty: nowhere");
  flags.Value(
      "advertise", "HOST:PORT",
      [&given](std::string_view value) -> std::string {
        given["advertise"].emplace_back(value);
        return "";
      },
      "what members are told of where it is; repeat for more (default: the hosts of `init`)");
  flags.Value("max-jobs-per-user", "N", keep("max_jobs_per_user"),
              fmt::format("jobs that a user who is no admin may have at once, waiting or running "
                          "(default {}; 0: no limit)",
                          defaults.user_limits.jobs));
  flags.Value("max-ranks-per-user", "N", keep("max_ranks_per_user"),
              fmt::format("ranks that they may have together (default {}; 0: no limit)",
                          defaults.user_limits.ranks));
  flags.Value("telemetry-interval", "TIME", keep("telemetry_interval"),
              "how often nodes tell what their cards say (default 10s; 0: never)");
  AddConfigFlag(flags, &file);
  flags.Switch("check-config", &check,
               "print every setting that holds and who says so, and start nothing");
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  Diagnostics diagnostics;
  ServiceSettings settings = CollectServiceSettings(given, file, diagnostics);
  if (!diagnostics.ok()) {
    reporter.Say(diagnostics.ErrorText());
    return kExitUsage;
  }
  ServiceOptions& options = settings.options;
  if (options.state_directory.empty() || options.socket.empty()) {
    reporter.Say(fmt::format("there is no default place for {} here: give {}",
                             options.socket.empty() ? "the socket" : "the state",
                             options.socket.empty() ? "--socket PATH" : "--state-dir DIR"));
    return kExitUsage;
  }
  if (check) return PrintResult(settings.shown, reporter);
  if (absl::Status log = SetUpLog({.file = "", .level = settings.log_level}); !log.ok()) {
    reporter.Say(MessageOf(log));
  }
  options.state_directory = Absolute(options.state_directory);
  options.socket = Absolute(options.socket);

  const std::string directory = options.state_directory;
  const std::string socket = options.socket;
  std::promise<int> asked;
  SignalWatcher signals;
  absl::StatusOr<std::unique_ptr<Service>> service = Service::Start(std::move(options));
  if (!service.ok()) {
    ReportError(service.status(), reporter);
    return StartFailure(service.status());
  }
  spdlog::info("coordinator serves version={} state={} socket={} network={}", kVersion,
               LogQuoted(directory), LogQuoted(socket), LogQuoted((*service)->network_address()));
  int signal = 0;
  {
    const Notifier notifier(**service);
    bool told = false;
    signals.SetHandler([&](int got) {
      if (AsksToEnd(got) && !std::exchange(told, true)) asked.set_value(got);
    });
    signal = asked.get_future().get();
    signals.SetHandler(nullptr);
  }
  spdlog::info("coordinator leaves signal={}", SignalName(signal));
  ::signal(SIGALRM, [](int) { ::_exit(0); });
  ::alarm(kEndLimitSeconds);
  (*service)->Stop();
  spdlog::info("coordinator ended");
  return 0;
}

}  // namespace muster
