#include "common/doctor/machine_checks.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/crypto/issuer.h"
#include "common/trust/renewal.h"

namespace muster {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr rlim_t kFewestFiles = 64;
// Of locked memory: what drivers and libraries for fast networks ask for at the least.
constexpr rlim_t kEnoughLocked = rlim_t{1} << 30;

std::string LimitText(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
}

}  // namespace

Finding CheckOwnDirectory(const std::string& check, const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) {
    return errno == ENOENT
               ? Bad(check, fmt::format("{} is not there", path), "is it the right --state-dir?")
               : Failed(check, ErrnoStatus(errno, path));
  }
  if (!S_ISDIR(info.st_mode)) return Bad(check, fmt::format("{} is no folder", path));
  if (info.st_uid != ::geteuid()) {
    return Bad(
        check,
        fmt::format("{} belongs to user {}, this is user {}", path, info.st_uid, ::geteuid()),
        "run as the user that the service runs as");
  }
  if ((info.st_mode & 077) != 0) {
    return Bad(
        check,
        fmt::format("{}: others may look into it, its mode is {:o}", path, info.st_mode & 07777),
        fmt::format("chmod 700 {}", path));
  }
  if (::access(path.c_str(), W_OK | X_OK) != 0) return Failed(check, ErrnoStatus(errno, path));
  return Good(check, fmt::format("{}, mode {:o}", path, info.st_mode & 07777));
}

Finding CheckDiskSpace(const std::string& path, uint64_t enough_bytes) {
  struct statvfs info = {};
  if (::statvfs(path.c_str(), &info) != 0) return Failed("disk", ErrnoStatus(errno, path));
  const uint64_t free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  const std::string text = fmt::format("{} MiB are free at {}", free_bytes / kMebibyte, path);
  const bool no_files = info.f_files > 0 && info.f_favail == 0;
  if ((info.f_flag & ST_RDONLY) != 0) return Bad("disk", path + " can only be read");
  if (no_files) return Bad("disk", path + ": no more files can be made", "remove some");
  if (free_bytes < enough_bytes / 100) return Bad("disk", text, "make room");
  if (free_bytes < enough_bytes) return Doubtful("disk", text, "make room");
  return Good("disk", text);
}

Finding CheckOpenFiles(uint64_t enough) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return Failed("open-files", ErrnoStatus(errno, "getrlimit"));
  }
  // Both programs raise theirs to the hard limit.
  const std::string text = fmt::format("the limit is {}", LimitText(limit.rlim_max));
  const std::string fix = "raise it: ulimit -Hn, or LimitNOFILE= of the service";
  if (limit.rlim_max < kFewestFiles) return Bad("open-files", text, fix);
  if (limit.rlim_max < enough) return Doubtful("open-files", text, fix);
  return Good("open-files", text);
}

Finding CheckLockedMemory() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
    return Failed("locked-memory", ErrnoStatus(errno, "getrlimit"));
  }
  const std::string text =
      fmt::format("ranks may lock {} bytes of memory", LimitText(limit.rlim_cur));
  if (limit.rlim_cur >= kEnoughLocked) return Good("locked-memory", text);
  return Doubtful("locked-memory", text + ", which is little for accelerators and fast networks",
                  "ulimit -l unlimited, or LimitMEMLOCK=infinity of the service");
}

Finding CheckDates(const std::string& check, const Certificate& certificate, WallTime now) {
  const WallTime renew_at = RenewAt(certificate, 1);
  const std::string until = FormatUtc(certificate.not_after());
  switch (StateOf(certificate, renew_at, now)) {
    case CertificateState::kNotYetValid:
      return Bad(check,
                 fmt::format("not yet valid: this machine's clock says {}, the coordinator's said "
                             "{} when it made the certificate",
                             FormatUtc(now), FormatUtc(IssuedAt(certificate))),
                 "set the clock that is wrong");
    case CertificateState::kGood:
      return Good(check, fmt::format("good until {}, renewed by {}", until, FormatUtc(renew_at)));
    case CertificateState::kDue:
      return Doubtful(
          check,
          fmt::format("good until {}, left: {}; it should have been renewed by {}", until,
                      LeftText(certificate.not_after(), now), FormatUtc(renew_at)),
          "the log of the service says why it was not, if it runs");
    case CertificateState::kEnded:
      return Doubtful(
          check, fmt::format("ended on {}, this machine's clock says {}", until, FormatUtc(now)),
          "start the service: it gets a new one by itself");
    case CertificateState::kLost:
      break;
  }
  return Bad(check,
             fmt::format("ended on {}, this machine's clock says {}: too long ago to come back "
                         "with it",
                         until, FormatUtc(now)),
             "have the name freed (coordinator revoke agent NAME --free-name), join again");
}

}  // namespace muster
