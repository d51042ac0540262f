#include <fmt/format.h>
#include <grp.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <vector>

#include "common/base/annotate.h"
#include "common/base/signal_names.h"
#include "common/base/version.h"
#include "common/io/service_notify.h"
#include "common/log/log.h"
#include "common/rpc/channel.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/signals.h"
#include "coordinator/daemon/service.h"

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

// Says ready to a service manager, keeps its watchdog content, and goes away on the loop.
class Notifier {
 public:
  explicit Notifier(EventLoop& loop) : loop_(loop) {
    std::vector<std::string> environment;
    for (char** one = environ; *one != nullptr; ++one) environment.emplace_back(*one);
    loop_.Post([this, manager = ServiceNotify::TakenFrom(environment)] {
      notify_ = std::make_unique<ServiceNotify>(loop_, manager);
      notify_->Ready();
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
  ServiceOptions options = DefaultServiceOptions();
  Flags flags("serve [flags]",
              "Runs the coordinator until SIGTERM. Agents and commands of the same user reach it\n"
              "through its Unix socket. Jobs do not end with it: started again on the same state\n"
              "directory it goes on with them. Logs to stderr (level: MUSTER_LOG).");
  flags.Text("state-dir", "DIR", &options.state_directory,
             fmt::format("jobs and their output (default {})", options.state_directory));
  flags.Text(
      "socket", "PATH", &options.socket,
      fmt::format("where to listen (default {})",
                  options.socket.empty() ? "none: XDG_RUNTIME_DIR is not set" : options.socket));
  flags.Value(
      "socket-group", "GROUP",
      [&options](std::string_view value) -> std::string {
        const group* const found = ::getgrnam(std::string(value).c_str());
        if (found == nullptr) return fmt::format("there is no group '{}'", value);
        options.socket_group = found->gr_gid;
        return "";
      },
      "whose members may submit jobs through the socket, each under the own name (default: only "
      "this user and root)");
  flags.Text("listen", "HOST:PORT", &options.listen,
             "where agents and users of the network reach it, once `coordinator init` has made a "
             "cluster (default :7443, every address); empty: nowhere");
  flags.Value(
      "advertise", "HOST:PORT",
      [&options](std::string_view value) -> std::string {
        const absl::Status status = CheckTarget(std::string(value));
        if (!status.ok()) return std::string(MessageOf(status));
        options.advertised.emplace_back(value);
        return "";
      },
      "what members are told of where it is; repeat for more (default: the hosts of `init`)");
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  if (options.state_directory.empty() || options.socket.empty()) {
    reporter.Say(fmt::format("there is no default place for {} here: give {}",
                             options.socket.empty() ? "the socket" : "the state",
                             options.socket.empty() ? "--socket PATH" : "--state-dir DIR"));
    return kExitUsage;
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
    // A service manager need not try again what only a person can mend.
    return absl::IsUnavailable(service.status()) ? kExitNoCoordinator : kExitUsage;
  }
  spdlog::info("coordinator serves version={} state={} socket={} network={}", kVersion,
               LogQuoted(directory), LogQuoted(socket), LogQuoted((*service)->network_address()));
  int signal = 0;
  {
    const Notifier notifier((*service)->loop());
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
