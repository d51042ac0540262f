#include "agent/node/facts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>

#include "agent/node/addresses.h"
#include "agent/node/host_names.h"
#include "common/base/annotate.h"
#include "common/base/version.h"

namespace muster {
namespace {

constexpr uint32_t kDefaultSlots = 8;
// More than any machine has; keeps a mistyped number from planning a million ranks on one host.
constexpr uint32_t kMostSlots = 4096;

// The whole text of a small file of the kernel; empty when it cannot be read.
std::string ReadSmallFile(const std::string& path) {
  std::string text;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  std::array<char, 4096> buffer;
  ssize_t got = 0;
  while ((got = ::read(fd, buffer.data(), buffer.size())) > 0 && text.size() < (1u << 20)) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  ::close(fd);
  return text;
}

uint32_t UsableCpus() {
  // Machines with more than 1024 processors need a larger set than cpu_set_t.
  constexpr int kMostCpus = 16384;
  cpu_set_t* set = CPU_ALLOC(kMostCpus);
  if (set == nullptr) return 0;
  const size_t bytes = CPU_ALLOC_SIZE(kMostCpus);
  CPU_ZERO_S(bytes, set);
  uint32_t count = 0;
  if (::sched_getaffinity(0, bytes, set) == 0)
    count = static_cast<uint32_t>(CPU_COUNT_S(bytes, set));
  CPU_FREE(set);
  return count;
}

uint64_t MemoryBytes() {
  struct sysinfo info = {};
  if (::sysinfo(&info) != 0) return 0;
  return static_cast<uint64_t>(info.totalram) * info.mem_unit;
}

}  // namespace

absl::StatusOr<uint32_t> ParseSlots(std::string_view text) {
  uint32_t slots = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || slots < 1 ||
      slots > kMostSlots) {
    return absl::InvalidArgumentError(
        fmt::format("expected a number from 1 to {}, got \"{}\"", kMostSlots, text));
  }
  return slots;
}

absl::Status CheckNumericAddress(std::string_view address) {
  const std::string text(address);
  in6_addr parsed = {};
  if (::inet_pton(AF_INET, text.c_str(), &parsed) == 1 ||
      ::inet_pton(AF_INET6, text.c_str(), &parsed) == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("expected a numeric IPv4 or IPv6 address, got \"{}\"", address));
}

v1::NodeFacts CollectFacts(const FactsOptions& options) {
  v1::NodeFacts facts;
  facts.set_hostname(KernelHostname());
  if (facts.hostname().find('.') != std::string::npos) {
    facts.set_fqdn(facts.hostname());
  } else {
    facts.set_fqdn(FqdnFromHostsFile(ReadSmallFile(options.root + "/etc/hosts"), facts.hostname()));
    if (facts.fqdn().empty() && options.resolver_limit.count() > 0) {
      facts.set_fqdn(FqdnFromResolver(facts.hostname(), options.resolver_limit));
    }
  }
  std::vector<std::string> addresses = options.addresses;
  if (addresses.empty()) {
    addresses = OrderAddresses(
        ReadInterfaceAddresses(),
        ParseDefaultRouteInterfaces(ReadSmallFile(options.root + "/proc/net/route")));
  }
  for (std::string& address : addresses) facts.add_addresses(std::move(address));
  for (uint32_t slot = 0; slot < options.slots; ++slot) facts.add_slots(slot);
  facts.set_cpu_count(UsableCpus());
  facts.set_memory_bytes(MemoryBytes());
  facts.set_agent_version(kVersion);
  return facts;
}

absl::StatusOr<std::string> ReadBootId(const std::string& root) {
  const std::string path = root + "/proc/sys/kernel/random/boot_id";
  std::string id = ReadSmallFile(path);
  while (!id.empty() && (id.back() == '\n' || id.back() == ' ')) id.pop_back();
  if (id.empty()) {
    return absl::UnavailableError(fmt::format("{}: cannot be read (is /proc mounted?)", path));
  }
  return id;
}

}  // namespace muster
