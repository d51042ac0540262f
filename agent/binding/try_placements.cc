#include "agent/binding/try_placements.h"

#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <string>

#include "common/base/annotate.h"

namespace muster {
namespace {

// As many bits as any kernel has processors, and NUMA nodes.
constexpr size_t kMaskBits = 65536;
constexpr size_t kWordBits = 8 * sizeof(unsigned long);
constexpr int kMaxNode = 1023;
using Mask = std::array<unsigned long, kMaskBits / kWordBits>;

// Of this thread; empty: the kernel does not say. `mask`: as the kernel has it.
CpuList Affinity(Mask& mask) {
  mask.fill(0);
  CpuList cpus;
  if (::syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask.data()) < 0) return cpus;
  for (uint32_t cpu = 0; cpu < kMaskBits; ++cpu) {
    if ((mask[cpu / kWordBits] >> cpu % kWordBits & 1) != 0) cpus.push_back(cpu);
  }
  return cpus;
}

// Which of `cpus` this thread can be bound to. It stays bound.
absl::StatusOr<CpuList> BindThread(const CpuList& cpus) {
  Mask mask = {};
  for (const uint32_t cpu : cpus) {
    if (cpu < kMaskBits) mask[cpu / kWordBits] |= 1UL << cpu % kWordBits;
  }
  if (::syscall(SYS_sched_setaffinity, 0, sizeof(mask), mask.data()) != 0) {
    return absl::FailedPreconditionError(std::strerror(errno));
  }
  return Affinity(mask);
}

// Why memory of `node` cannot be preferred; empty: it can. The thread has no preference afterwards.
std::string PreferNode(int node) {
  std::array<unsigned long, (kMaxNode + 1) / kWordBits> mask = {};
  if (node > kMaxNode) return "no such node";
  mask[static_cast<size_t>(node) / kWordBits] |= 1UL << static_cast<size_t>(node) % kWordBits;
  if (::syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask.data(), kMaxNode + 2) != 0) {
    return std::strerror(errno);
  }
  // Cannot fail where the other one could be made.
  (void)::syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0);
  return "";
}

class Trial {
 public:
  explicit Trial(Placements& placements) : placements_(placements) { (void)Affinity(before_); }
  ~Trial() {
    // What the kernel had said itself.
    (void)::syscall(SYS_sched_setaffinity, 0, sizeof(before_), before_.data());
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  void Try(v1::RankPlacement& rank) {
    if (rank.cpus().empty()) return;
    const absl::StatusOr<CpuList>& got = Processors(rank.cpus());
    if (!got.ok()) {
      Warn(fmt::format("ranks are not bound to processors {}: {}", rank.cpus(),
                       MessageOf(got.status())));
      rank.set_reason(fmt::format("{}, but its processors {} cannot be had: {}", rank.reason(),
                                  rank.cpus(), MessageOf(got.status())));
      rank.clear_cpus();
      rank.clear_omp_num_threads();
      rank.set_memory_node(-1);
      return;
    }
    if (const std::string text = CpuListText(*got); text != rank.cpus()) {
      Warn(fmt::format("only processors {} of {} can be had", text, rank.cpus()));
      rank.set_reason(
          fmt::format("{}; only {} of {} can be had", rank.reason(), text, rank.cpus()));
      rank.set_cpus(text);
      rank.set_omp_num_threads(
          std::min(rank.omp_num_threads(), static_cast<uint32_t>(got->size())));
    }
    if (rank.memory_node() < 0) return;
    if (const std::string& why_not = Memory(rank.memory_node()); !why_not.empty()) {
      Warn(fmt::format("memory of NUMA node {} cannot be preferred: {}", rank.memory_node(),
                       why_not));
      rank.set_memory_node(-1);
    }
  }

 private:
  const absl::StatusOr<CpuList>& Processors(const std::string& text) {
    const auto known = cpus_.find(text);
    if (known != cpus_.end()) return known->second;
    absl::StatusOr<CpuList> cpus = ParseCpuList(text);
    if (cpus.ok()) cpus = BindThread(*cpus);
    return cpus_.emplace(text, std::move(cpus)).first->second;
  }

  const std::string& Memory(int node) {
    const auto known = nodes_.find(node);
    return known != nodes_.end() ? known->second
                                 : nodes_.emplace(node, PreferNode(node)).first->second;
  }

  void Warn(std::string warning) {
    std::vector<std::string>& all = placements_.warnings;
    if (std::find(all.begin(), all.end(), warning) == all.end()) all.push_back(std::move(warning));
  }

  Placements& placements_;
  Mask before_ = {};
  // What was tried, ranks often share it.
  std::map<std::string, absl::StatusOr<CpuList>> cpus_;
  std::map<int, std::string> nodes_;
};

}  // namespace

void TryPlacements(Placements* placements) {
  Trial trial(*placements);
  for (v1::RankPlacement& rank : placements->ranks) trial.Try(rank);
}

}  // namespace muster
