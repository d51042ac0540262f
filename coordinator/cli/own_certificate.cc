#include "coordinator/cli/own_certificate.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/io/atomic_file.h"
#include "common/io/unique_fd.h"
#include "common/log/log.h"
#include "common/member/certificate_renewer.h"
#include "common/rpc/member_channel.h"
#include "common/trust/renewal.h"
#include "coordinator/cli/exit_status.h"

extern char** environ;

namespace muster {
namespace {

// So often at most: that a change of the authority goes on with (almost) any use.
constexpr std::chrono::seconds kLookInterval{60};
constexpr std::chrono::hours kTellInterval{24};
// Whatever hangs, nothing is left of it then.
constexpr unsigned kMostSeconds = 120;
constexpr size_t kMaxTextBytes = 4096;

std::string RenewalPath(const std::string& directory) { return directory + "/renewal"; }

std::optional<WallTime> TimeOf(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return WallTime(std::chrono::seconds(info.st_mtim.tv_sec));
}

// A time in the future is that of another clock.
bool IsYoungerThan(const std::optional<WallTime>& time, Duration age, WallTime now) {
  return time.has_value() && *time <= now && now - *time < age;
}

// Where it is kept that the user was told; empty: nowhere.
std::string ToldPath(const std::string& directory, bool writable) {
  if (writable) return directory + "/told";
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && *runtime == '/' ? fmt::format("{}/muster-certificate-told", runtime)
                                               : "";
}

// One line on stderr, unless that would take time.
void TellNowAndThen(const std::string& told_path, WallTime now, const std::string& text) {
  if (!told_path.empty()) {
    if (IsYoungerThan(TimeOf(told_path), kTellInterval, now)) return;
    // For its time. If it cannot be made: better told twice than never.
    (void)WriteFileAtomically(told_path, "", 0600, Durability::kProcessCrash);
  }
  pollfd ready{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (::poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return;
  const std::string line = fmt::format("muster: {}\n", text.substr(0, PIPE_BUF / 2));
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

// Starts `coordinator renew-certificate`, which outlives this process. It ends by itself; until
// this process does, it may stay as a zombie.
void StartLooking(const std::string& directory, const std::string& target) {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  // Not of a program that only has this code in it, nor of one that was replaced.
  if (error || !program.ends_with("/coordinator")) return;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (::posix_spawn_file_actions_init(&actions) != 0) return;
  if (::posix_spawnattr_init(&attributes) != 0) {
    ::posix_spawn_file_actions_destroy(&actions);
    return;
  }
  // Nobody waits for the end of a pipe because of it, no folder is busy because of it, and Ctrl-C
  // is not for it.
  int failed = ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  failed |= ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  failed |= ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  failed |= ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  failed |= ::posix_spawn_file_actions_addchdir_np(&actions, "/");
  sigset_t none;
  sigemptyset(&none);
  failed |= ::posix_spawnattr_setsigmask(&attributes, &none);
  failed |= ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  std::array<std::string, 4> words = {"coordinator", kRenewCertificate, directory, target};
  std::array<char*, 5> arguments = {words[0].data(), words[1].data(), words[2].data(),
                                    words[3].data(), nullptr};
  pid_t child = 0;
  if (failed == 0) {
    (void)::posix_spawn(&child, program.c_str(), &actions, &attributes, arguments.data(), environ);
  }
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
}

// What went wrong when somebody looked last; empty: nothing.
std::string LastTrouble(const std::string& directory) {
  std::string text;
  if (ReadFile(RenewalPath(directory), text, kMaxTextBytes)) return "";
  return text;
}

}  // namespace

void HaveCertificateLookedAfter(const std::string& directory, const Credentials& credentials,
                                const std::string& target, WallTime now) {
  const Certificate& certificate = credentials.certificate;
  const Duration interval = std::min<Duration>(kLookInterval, CheckInterval(certificate));
  if (IsYoungerThan(TimeOf(RenewalPath(directory)), interval, now)) return;
  const bool writable = ::access(directory.c_str(), W_OK) == 0;
  if (now >= RenewAt(certificate, /*chance=*/1)) {
    const std::string why =
        writable ? LastTrouble(directory) : fmt::format("{} cannot be written", directory);
    if (!why.empty()) {
      TellNowAndThen(ToldPath(directory, writable), now,
                     fmt::format("your certificate ends on {} and is not renewed: {}",
                                 FormatUtc(certificate.not_after()), LogQuoted(why)));
    }
  }
  if (writable) StartLooking(directory, target);
}

int RunRenewCertificate(Arguments arguments, Reporter& reporter) {
  if (arguments.size() != 2) {
    reporter.Say("renew-certificate DIRECTORY HOST:PORT: commands start it by themselves");
    return kExitUsage;
  }
  ::alarm(kMostSeconds);
  const CredentialsDirectory directory(arguments[0]);
  const std::string path = RenewalPath(arguments[0]);
  const UniqueFd file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  // Somebody else is at it.
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return 0;
  // From now on nobody starts another one for a while.
  (void)::futimens(file.get(), nullptr);
  const SystemClock clock;
  CertificateRenewer renewer(directory, arguments[1], MemberDialer(directory, arguments[1]), clock);
  CertificateLook look = renewer.Look(/*chance=*/0);
  // The coordinator hears that it arrived.
  if (look.renewed) look = renewer.Look(/*chance=*/0);
  const std::string trouble = std::string(MessageOf(look.status)).substr(0, kMaxTextBytes);
  // What cannot be kept is not told.
  if (::ftruncate(file.get(), 0) == 0) {
    (void)!::pwrite(file.get(), trouble.data(), trouble.size(), 0);
  }
  return look.status.ok() ? 0 : 1;
}

}  // namespace muster
