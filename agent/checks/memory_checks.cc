// Limits of memory, files and disks.
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <charconv>

#include "agent/checks/quick_checks.h"

namespace muster {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr uint64_t kGibibyte = uint64_t{1} << 30;
// What vendors ask for, per card.
constexpr uint64_t kHugeMebibytesPerCard = 4400;
constexpr rlim_t kEnoughFiles = 65'536;
constexpr uint64_t kEnoughDiskBytes = kGibibyte;

std::string LimitText(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : fmt::format("{}", limit);
}

uint64_t Number(std::string_view text) {
  uint64_t value = 0;
  const size_t begin = text.find_first_of("0123456789");
  if (begin == std::string_view::npos) return 0;
  (void)std::from_chars(text.data() + begin, text.data() + text.size(), value);
  return value;
}

// Bytes that are free; nothing when the path does not say.
std::optional<struct statvfs> FileSystem(const std::string& path) {
  struct statvfs info = {};
  if (path.empty() || ::statvfs(path.c_str(), &info) != 0) return std::nullopt;
  return info;
}

}  // namespace

v1::CheckResult CheckMemlock(const CheckContext& context) {
  const rlim_t limit = context.memlock.rlim_cur;
  if (limit == RLIM_INFINITY) return MakeResult("memlock", v1::PASS, "", "");
  const bool efa = context.needs_efa();
  return MakeResult(
      "memlock", efa ? v1::FAIL : v1::WARN,
      fmt::format("ranks may lock only {} bytes of memory{}", LimitText(limit),
                  efa ? ", and EFA needs it unlimited" : ""),
      "LimitMEMLOCK=infinity of the agent's service, --ulimit memlock=-1 of its container, or "
      "ulimit -l unlimited where it is started");
}

v1::CheckResult CheckOpenFileLimit(const CheckContext& context) {
  // Ranks get the hard limit as their soft one.
  const rlim_t limit = context.open_files.rlim_max;
  if (limit >= kEnoughFiles) return MakeResult("open-files", v1::PASS, "", "");
  return MakeResult(
      "open-files", v1::WARN, fmt::format("ranks may open only {} files each", LimitText(limit)),
      "LimitNOFILE=1048576 of the agent's service, or ulimit -Hn where it is started");
}

v1::CheckResult CheckHugePages(const CheckContext& context) {
  const std::optional<std::string> meminfo = context.Read("/proc/meminfo");
  if (!meminfo) return MakeResult("hugepages", v1::SKIPPED, "not known", "");
  const std::string& text = *meminfo;
  uint64_t total = 0;
  uint64_t unused = 0;
  uint64_t page_kib = 0;
  if (const size_t at = text.find("HugePages_Total:"); at != std::string::npos) {
    total = Number(std::string_view(text).substr(at));
  }
  if (const size_t at = text.find("HugePages_Free:"); at != std::string::npos) {
    unused = Number(std::string_view(text).substr(at));
  }
  if (const size_t at = text.find("Hugepagesize:"); at != std::string::npos) {
    page_kib = Number(std::string_view(text).substr(at));
  }
  const uint64_t have = total * page_kib / 1024;
  const uint64_t want = kHugeMebibytesPerCard * context.cards;
  if (have >= want && total > 0 && unused == 0 && context.needs_efa()) {
    return MakeResult(
        "hugepages", v1::WARN,
        fmt::format("none of {} huge pages is free, and EFA takes its buffers there", total),
        "end what holds them, or reserve more: sysctl vm.nr_hugepages");
  }
  if (have >= want) return MakeResult("hugepages", v1::PASS, "", "");
  return MakeResult("hugepages", v1::WARN,
                    fmt::format("{} MiB of huge pages are reserved, {} cards want {} MiB ({} each)",
                                have, context.cards, want, kHugeMebibytesPerCard),
                    page_kib == 0 ? "reserve them: sysctl vm.nr_hugepages"
                                  : fmt::format("sysctl -w vm.nr_hugepages={}",
                                                (want * 1024 + page_kib - 1) / page_kib));
}

v1::CheckResult CheckSharedMemory(const CheckContext& context) {
  const std::optional<struct statvfs> info = FileSystem(context.sysroot + "/dev/shm");
  if (!info) {
    // A simulated node may lack it.
    if (!context.sysroot.empty()) return MakeResult("shared-memory", v1::SKIPPED, "not known", "");
    return MakeResult("shared-memory", v1::WARN, "/dev/shm cannot be looked at",
                      "mount a tmpfs there");
  }
  const uint64_t size = uint64_t{info->f_blocks} * info->f_frsize;
  if (size >= kGibibyte) return MakeResult("shared-memory", v1::PASS, "", "");
  return MakeResult("shared-memory", v1::WARN,
                    fmt::format("/dev/shm has {} MiB, less than 1 GiB: data loaders may end with "
                                "SIGBUS",
                                size / kMebibyte),
                    "mount -o remount,size=50% /dev/shm, or --ipc=host or --shm-size of the "
                    "container");
}

v1::CheckResult CheckDisk(const CheckContext& context) {
  const std::optional<struct statvfs> info = FileSystem(context.state_directory);
  if (!info) return MakeResult("disk", v1::PASS, "", "");
  const uint64_t free_bytes = uint64_t{info->f_bavail} * info->f_frsize;
  if (free_bytes >= kEnoughDiskBytes) return MakeResult("disk", v1::PASS, "", "");
  return MakeResult("disk", v1::WARN,
                    fmt::format("{} MiB are free at {}, where output of ranks waits to be sent",
                                free_bytes / kMebibyte, context.state_directory),
                    "make room");
}

}  // namespace muster
