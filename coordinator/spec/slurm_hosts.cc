#include "coordinator/spec/slurm_hosts.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "coordinator/spec/host_name.h"
#include "coordinator/spec/hostfile.h"
#include "coordinator/spec/text.h"

namespace muster {
namespace {

constexpr char kNodes[] = "SLURM_JOB_NODELIST";
constexpr char kTasks[] = "SLURM_TASKS_PER_NODE";

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

}  // namespace

absl::StatusOr<std::string> SlurmHostfile(std::string_view nodes, std::string_view tasks) {
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
  std::vector<uint32_t> slots;
  for (const std::string_view part :
       tasks.empty() ? std::vector<std::string_view>() : Split(tasks)) {
    const auto counts = ReadTasks(part);
    if (!counts || slots.size() + counts->second > hosts.size()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {} expected, as 8(x2),4 for the {} nodes of {}, got {}", kTasks,
                      counts ? "counts for no more nodes" : "tasks for each node", hosts.size(),
                      kNodes, Quoted(tasks)));
    }
    slots.insert(slots.end(), counts->second, counts->first);
  }
  if (!slots.empty() && slots.size() != hosts.size()) {
    return absl::InvalidArgumentError(fmt::format("{} has {} nodes, but {} is {}: for {} nodes",
                                                  kNodes, hosts.size(), kTasks, Quoted(tasks),
                                                  slots.size()));
  }
  std::string lines;
  for (size_t i = 0; i < hosts.size(); ++i) {
    lines += hosts[i];
    if (!slots.empty()) lines += fmt::format(" slots={}", slots[i]);
    lines += '\n';
  }
  return lines;
}

}  // namespace muster
