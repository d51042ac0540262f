#include "agent/shim/lease.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "agent/shim/text.h"
#include "agent/shim/withheld.h"

namespace muster::shim {
namespace {

constexpr char kSharedDirectory[] = "/run/lock/muster";
constexpr uint32_t kFirstPort = 29500;
constexpr uint32_t kLastPort = 29999;

// Makes `path` when it is missing, and opens it into `fd`. Empty when it is a directory in which
// files can be made.
std::string UseDirectory(const std::string& path, UniqueFd& fd) {
  // Open for all, sticky: users share it, and nobody removes the files of another.
  const bool made = ::mkdir(path.c_str(), 0777) == 0;
  if (!made && errno != EEXIST) return path + ": " + ErrnoText(errno);
  UniqueFd opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info = {};
  if (!opened || ::fstat(opened.get(), &info) != 0) return path + ": " + ErrnoText(errno);
  const bool taken_over = ::geteuid() == 0 && info.st_uid != 0;
  if (taken_over && ::fchown(opened.get(), 0, 0) != 0) return path + ": " + ErrnoText(errno);
  if ((made || taken_over) && ::fchmod(opened.get(), 01777) != 0) {
    return path + ": " + ErrnoText(errno);
  }
  if (::faccessat(opened.get(), ".", W_OK | X_OK, AT_EACCESS) != 0)
    return path + ": " + ErrnoText(errno);
  fd = std::move(opened);
  return "";
}

// False, with errno, for what is no file of its own: everybody may make files in the directory, and
// a second name of some file that only the shim may write would be written to.
bool IsOwnName(int fd) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return false;
  if (S_ISREG(info.st_mode) && info.st_nlink == 1) return true;
  errno = S_ISREG(info.st_mode) ? EMLINK : ENOTSUP;
  return false;
}

// Takes away what is there under the name of a lease and is no file, as only root can: nobody holds
// a lease by it, and somebody may have made it to keep others from it. False when it is still
// there.
bool RemoveObstacle(int directory, const char* name) {
  struct stat info = {};
  if (::geteuid() != 0 || ::fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
  if (S_ISREG(info.st_mode)) return false;
  if (!S_ISDIR(info.st_mode)) return ::unlinkat(directory, name, 0) == 0;
  if (::unlinkat(directory, name, AT_REMOVEDIR) == 0) return true;
  const std::string aside =
      "not-a-lease." + std::to_string(info.st_ino) + "." + std::to_string(::getpid());
  return ::renameat(directory, name, directory, aside.c_str()) == 0;
}

UniqueFd OpenLeaseFile(int directory, const std::string& name) {
  // Not with O_CREAT first: where fs.protected_regular is on, that is refused for files of other
  // users in a sticky directory, even to root.
  for (int attempt = 0; attempt < 10; ++attempt) {
    constexpr int kFlags = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    UniqueFd fd(::openat(directory, name.c_str(), O_RDWR | kFlags));
    if (fd && IsOwnName(fd.get())) return fd;
    const int error = errno;
    if (fd && error == EMLINK) {
      // Another name of it, which everybody can make, must not keep others from the lease. The file
      // may be something else, so it is locked and not written.
      fd.Reset(::openat(directory, name.c_str(), O_RDONLY | kFlags));
      return fd;
    }
    fd.Reset();
    if (RemoveObstacle(directory, name.c_str())) continue;
    errno = error;
    if (errno == EACCES || errno == EPERM) {
      // A lock needs no write permission; only the holder's name cannot be left in the file.
      fd.Reset(::openat(directory, name.c_str(), O_RDONLY | kFlags));
      return fd;
    }
    if (errno != ENOENT) return fd;
    fd.Reset(::openat(directory, name.c_str(), O_RDWR | O_CREAT | O_EXCL | kFlags, 0666));
    if (fd) {
      (void)::fchmod(fd.get(), 0666);
      return fd;
    }
    if (errno != EEXIST) return fd;
  }
  return UniqueFd();
}

std::string ReadHolder(int fd) {
  char text[256];
  const ssize_t count = ::pread(fd, text, sizeof(text), 0);
  if (count <= 0) return "another launch";
  std::string_view holder(text, static_cast<size_t>(count));
  holder = holder.substr(0, holder.find('\n'));
  return holder.empty() ? "another launch" : Printable(holder);
}

void Unlock(UniqueFd& fd) {
  if (!fd) return;
  (void)::ftruncate(fd.get(), 0);
  // Explicitly, not only by closing: a rank that is between clone and exec has the descriptor too.
  (void)::flock(fd.get(), LOCK_UN);
  fd.Reset();
}

}  // namespace

std::string EncodeFileName(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (plain) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

uint16_t CompanionPort(uint32_t port) {
  return __builtin_bswap16(static_cast<uint16_t>(port + 100));
}

LeaseDirectory OpenLeaseDirectory(const std::string& wanted, std::string& problem) {
  LeaseDirectory directory;
  directory.path = wanted.empty() ? kSharedDirectory : wanted;
  problem = UseDirectory(directory.path, directory.fd);
  if (directory.fd || !wanted.empty()) return directory;
  directory.path = "/tmp/muster-leases-" + std::to_string(::geteuid());
  const std::string shared_problem =
      std::exchange(problem, UseDirectory(directory.path, directory.fd));
  if (!directory.fd) problem = shared_problem + "; " + problem;
  return directory;
}

std::optional<LeaseSet> LeasesFor(const internal::ShimBootstrap& bootstrap, std::string& problem) {
  LeaseDirectory directory = OpenLeaseDirectory(bootstrap.lease_directory(), problem);
  if (!directory.fd) return std::nullopt;
  return LeaseSet(std::move(directory), bootstrap.node_id(),
                  bootstrap.holder().empty() ? "job " + bootstrap.job_id() : bootstrap.holder(),
                  !bootstrap.slots_are_cards()       ? SlotKind::kPlain
                  : bootstrap.card_leases_per_node() ? SlotKind::kCardOfNode
                                                     : SlotKind::kCardOfMachine);
}

LeaseSet::LeaseSet(LeaseDirectory directory, std::string node_id, std::string holder, SlotKind kind)
    : directory_(std::move(directory)),
      node_id_(std::move(node_id)),
      holder_(std::move(holder)),
      kind_(kind) {}

UniqueFd LeaseSet::Lock(const std::string& name, std::optional<std::string>& holder,
                        std::string& problem) {
  const std::string path = directory_.path + "/" + name;
  UniqueFd fd = OpenLeaseFile(directory_.fd.get(), name);
  if (!fd) {
    problem = "cannot open the lease file " + path + ": " + ErrnoText(errno);
    return fd;
  }
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      holder = ReadHolder(fd.get());
    } else {
      problem = "cannot lock the lease file " + path + ": " + ErrnoText(errno);
    }
    return UniqueFd();
  }
  // For people only: the lock is what counts, so a full disk does no harm.
  const std::string text = Printable(holder_, 200) + " (pid " + std::to_string(::getpid()) + ")\n";
  (void)!::ftruncate(fd.get(), 0);
  (void)!::pwrite(fd.get(), text.data(), text.size(), 0);
  return fd;
}

std::string LeaseSet::TakeSlot(uint32_t slot, bool* held) {
  if (held != nullptr) *held = false;
  if (slots_.contains(slot)) return "";
  std::optional<std::string> holder;
  std::string problem;
  const std::string what = (kind_ == SlotKind::kPlain ? "slot " : "the card of module ") +
                           std::to_string(slot) + " of " + Printable(node_id_);
  const std::string name = LeaseOf(slot);
  UniqueFd fd = Lock(name, holder, problem);
  if (holder) {
    if (held != nullptr) *held = true;
    return what + " is in use by " + *holder;
  }
  if (!fd) return problem;
  // With the lock: whoever withholds has it until the mark is there.
  if (const Withheld mark = FindWithheld(directory_.fd.get(), name); !mark.file.empty()) {
    Unlock(fd);
    return what + " is withheld: " + mark.reason +
           " (when it is certain that nothing uses it any " + "more, remove " + directory_.path +
           "/" + mark.file + ")";
  }
  slots_[slot] = std::move(fd);
  return "";
}

std::string LeaseSet::LeaseOf(uint32_t slot) const {
  const std::string number = std::to_string(slot);
  if (kind_ == SlotKind::kCardOfMachine) return "card." + number;
  return (kind_ == SlotKind::kPlain ? "slot." : "card.") + EncodeFileName(node_id_) + "." + number;
}

// A directory that was removed is made again. False when it cannot be, because what it was in is
// gone, too: nobody takes leases there any more.
bool LeaseSet::DirectoryMeansSomething() {
  struct stat info = {};
  if (::fstat(directory_.fd.get(), &info) != 0 || info.st_nlink > 0) return true;
  std::string problem;
  LeaseDirectory again = OpenLeaseDirectory(directory_.path, problem);
  if (again.fd) {
    directory_ = std::move(again);
    return true;
  }
  const std::string above = directory_.path.substr(0, directory_.path.rfind('/') + 1);
  return ::stat(above.c_str(), &info) == 0 || errno != ENOENT;
}

std::string LeaseSet::MarkAll(const std::string& attempt, const std::string& reason) {
  if (!DirectoryMeansSomething()) return "";
  for (const auto& [slot, fd] : slots_) {
    const std::string problem =
        MarkWithheld(directory_.fd.get(), LeaseOf(slot), EncodeFileName(attempt), reason);
    if (!problem.empty()) return directory_.path + "/" + problem;
  }
  return "";
}

std::string LeaseSet::WithholdAll(const std::string& attempt, const std::string& reason) {
  std::string problem = MarkAll(attempt, reason);
  if (problem.empty()) {
    ReleaseAll();
    return "";
  }
  // All or none: this process, which goes on, is what withholds them.
  for (const auto& [slot, fd] : slots_) {
    UnmarkWithheld(directory_.fd.get(), LeaseOf(slot), EncodeFileName(attempt));
  }
  return problem;
}

void LeaseSet::EndWithholding(const std::string& attempt, const std::vector<uint32_t>& slots) {
  for (const uint32_t slot : slots) {
    UnmarkWithheld(directory_.fd.get(), LeaseOf(slot), EncodeFileName(attempt));
  }
}

std::string LeaseSet::TryPort(uint32_t candidate, PortHold& hold) {
  const std::string name = "port " + std::to_string(candidate);
  std::optional<std::string> holder;
  std::string reason;
  UniqueFd fd = Lock("port." + std::to_string(candidate), holder, reason);
  if (holder) return name + " is in use by " + *holder;
  if (!fd) return name + ": " + reason;
  if (!hold.Take(static_cast<uint16_t>(candidate), reason)) {
    Unlock(fd);
    return name + " is in use by another program: " + reason;
  }
  port_ = std::move(fd);
  return "";
}

std::string LeaseSet::TryCompanion(uint32_t port) {
  const uint16_t companion = CompanionPort(port);
  const std::string name = "port " + std::to_string(companion);
  std::optional<std::string> holder;
  std::string reason;
  UniqueFd fd = Lock("port." + std::to_string(companion), holder, reason);
  if (holder) return name + " is in use by " + *holder;
  if (!fd) return name + ": " + reason;
  // By IPv4 only: the library that uses it knows nothing else.
  if (!BindEverywhere(AF_INET, companion, reason) && !reason.empty()) {
    Unlock(fd);
    return name + " is in use by another program: " + reason;
  }
  companion_ = std::move(fd);
  return "";
}

std::string LeaseSet::TakePort(uint32_t wanted, bool companion, PortHold& hold, Port& port) {
  port = {};
  if (wanted > 65535) return "port " + std::to_string(wanted) + " is no port: at most 65535";
  const uint32_t first = wanted != 0 ? wanted : kFirstPort;
  const uint32_t last = wanted != 0 ? wanted : kLastPort;
  std::string problem;
  // The first free one whose companion is not.
  uint32_t second_best = 0;
  std::string companion_problem;
  for (uint32_t candidate = first; candidate <= last; ++candidate) {
    problem = TryPort(candidate, hold);
    if (!problem.empty()) continue;
    const std::string missing = companion ? TryCompanion(candidate) : "";
    if (missing.empty()) {
      port.number = candidate;
      return "";
    }
    if (second_best == 0) {
      second_best = candidate;
      companion_problem = missing;
    }
    hold.Release();
    ReleasePort();
  }
  if (second_best != 0) {
    problem = TryPort(second_best, hold);
    if (problem.empty()) {
      port.number = second_best;
      port.warning = "PT_ENABLE_INTER_HOST_CACHING needs a second port beside master port " +
                     std::to_string(second_best) + ", and " + companion_problem +
                     " (choose another master_port)";
      return "";
    }
  }
  if (wanted != 0) return problem;
  return "no port from " + std::to_string(kFirstPort) + " to " + std::to_string(kLastPort) +
         " is free; the last one tried: " + problem;
}

void LeaseSet::ReleaseSlot(uint32_t slot) {
  const auto it = slots_.find(slot);
  if (it == slots_.end()) return;
  Unlock(it->second);
  slots_.erase(it);
}

void LeaseSet::ReleasePort() {
  Unlock(port_);
  Unlock(companion_);
}

void LeaseSet::ReleaseAll() {
  for (auto& [slot, fd] : slots_) Unlock(fd);
  slots_.clear();
  ReleasePort();
}

}  // namespace muster::shim
