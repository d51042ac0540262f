#include "coordinator/spec/slurm_hosts.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "common/config/text.h"
#include "coordinator/spec/host_name.h"
#include "coordinator/spec/hostfile.h"

namespace muster {
namespace {

constexpr char kNodes[] = "SLURM_JOB_NODELIST";
constexpr char kTasks[] = "SLURM_TASKS_PER_NODE";
constexpr char kGpus[] = "SLURM_GPUS_PER_NODE";
constexpr char kGpusHere[] = "SLURM_GPUS_ON_NODE";

// At the commas that are in no brackets.
std::vector<std::string_view> Split(std::string_view list) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') ++depth;
    if (i < list.size() && list[i] == ']') --depth;
    if (i < list.size() && (list[i] != ',' || depth > 0)) continue;
    parts.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

std::optional<uint32_t> TakeNumber(std::string_view& text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

// `8(x2)`: how many tasks, on how many nodes.
std::optional<std::pair<uint32_t, uint32_t>> ReadTasks(std::string_view text) {
  const std::optional<uint32_t> tasks = TakeNumber(text);
  if (!tasks || *tasks == 0 || *tasks > kMaxSlotsPerHost) return std::nullopt;
  if (text.empty()) return std::pair(*tasks, 1u);
  if (!text.starts_with("(x") || !text.ends_with(")")) return std::nullopt;
  text.remove_prefix(2);
  text.remove_suffix(1);
  const std::optional<uint32_t> nodes = TakeNumber(text);
  if (!nodes || *nodes == 0 || *nodes > kMaxHosts || !text.empty()) return std::nullopt;
  return std::pair(*tasks, *nodes);
}

absl::StatusOr<std::vector<std::string>> ReadNodes(std::string_view nodes) {
  if (nodes.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is not set: this is not inside a Slurm allocation (salloc, sbatch)", kNodes));
  }
  std::vector<std::string> hosts;
  size_t budget = kMaxHosts;
  for (const std::string_view part : Split(nodes)) {
    HostPattern pattern = ParseHostPattern(part, budget);
    if (pattern.error.empty() && !pattern.user.empty()) pattern.error = "no user belongs here";
    if (!pattern.error.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {}: {}", kNodes, Quoted(part), pattern.error));
    }
    hosts.insert(hosts.end(), pattern.hosts.begin(), pattern.hosts.end());
  }
  return hosts;
}

// `gaudi:4`, `4` or `a:2,b:2`: all cards of a node, which may be none.
absl::StatusOr<uint32_t> ReadCards(std::string_view text, const char* variable) {
  uint64_t sum = 0;
  for (const std::string_view part : Split(text)) {
    const size_t colon = part.rfind(':');
    const auto count = ParseNumber(colon == std::string_view::npos ? part : part.substr(colon + 1),
                                   kMaxSlotsPerHost);
    if (!count) sum = kMaxSlotsPerHost + 1;
    sum += count.value_or(0);
  }
  if (sum > kMaxSlotsPerHost) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a number of cards expected, at most {}, as 8 or gaudi:8, got {}", variable,
                    kMaxSlotsPerHost, Quoted(text)));
  }
  return static_cast<uint32_t>(sum);
}

absl::StatusOr<std::vector<uint32_t>> ReadTaskList(std::string_view tasks, size_t hosts) {
  std::vector<uint32_t> slots;
  for (const std::string_view part : Split(tasks)) {
    const auto counts = ReadTasks(part);
    if (!counts || slots.size() + counts->second > hosts) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {} expected, as 8(x2),4 for the {} nodes of {}, got {}", kTasks,
                      counts ? "counts for no more nodes" : "tasks for each node", hosts, kNodes,
                      Quoted(tasks)));
    }
    slots.insert(slots.end(), counts->second, counts->first);
  }
  if (slots.size() != hosts) {
    return absl::InvalidArgumentError(fmt::format("{} has {} nodes, but {} is {}: for {} nodes",
                                                  kNodes, hosts, kTasks, Quoted(tasks),
                                                  slots.size()));
  }
  return slots;
}

// Of each host; empty: what its node reports.
absl::StatusOr<std::vector<uint32_t>> ReadSlots(const SlurmAllocation& allocation, size_t hosts) {
  const bool asked = !allocation.asked_tasks.empty();
  const bool same_everywhere = allocation.gpus.empty();
  absl::StatusOr<uint32_t> cards = 0;
  if (!asked && !allocation.gpus_per_node.empty()) {
    cards = ReadCards(allocation.gpus_per_node, kGpus);
  } else if (!asked && same_everywhere && !allocation.gpus_here.empty()) {
    cards = ReadCards(allocation.gpus_here, kGpusHere);
  }
  if (!cards.ok()) return cards.status();
  if (*cards > 0) return std::vector<uint32_t>(hosts, *cards);
  if (allocation.tasks.empty()) return std::vector<uint32_t>();
  return ReadTaskList(allocation.tasks, hosts);
}

}  // namespace

absl::StatusOr<std::string> SlurmHostfile(const SlurmAllocation& allocation) {
  const absl::StatusOr<std::vector<std::string>> hosts = ReadNodes(allocation.nodes);
  if (!hosts.ok()) return hosts.status();
  const absl::StatusOr<std::vector<uint32_t>> slots = ReadSlots(allocation, hosts->size());
  if (!slots.ok()) return slots.status();
  std::string lines;
  for (size_t i = 0; i < hosts->size(); ++i) {
    lines += (*hosts)[i];
    if (!slots->empty()) lines += fmt::format(" slots={}", (*slots)[i]);
    lines += '\n';
  }
  return lines;
}

}  // namespace muster
