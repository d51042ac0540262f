#include "coordinator/cli/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace muster {
namespace {

// Above this a list of ranks is a slip of the finger, and expanding it would take all memory.
constexpr uint32_t kHighestRank = 1'000'000;

bool ParseNumber(std::string_view text, uint32_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && *number <= kHighestRank;
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ParseRanks(std::string_view text) {
  std::vector<uint32_t> ranks;
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const size_t dash = part.find('-');
    uint32_t first = 0;
    uint32_t last = 0;
    const bool ok = ParseNumber(part.substr(0, dash), &first) &&
                    (dash == std::string_view::npos || ParseNumber(part.substr(dash + 1), &last));
    if (dash == std::string_view::npos) last = first;
    if (!ok || last < first) {
      return absl::InvalidArgumentError(
          fmt::format("expected ranks such as 0-7,9, got '{}'", text));
    }
    for (uint32_t rank = first; rank <= last; ++rank) ranks.push_back(rank);
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::string FormatRanks(std::span<const uint32_t> ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? "," : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string ListNames(std::span<const std::string> names, size_t limit) {
  const size_t shown = limit == 0 || names.size() <= limit ? names.size() : limit;
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) text += ", ";
    text += names[i];
  }
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::string HostOf(const v1::Job& job, uint32_t rank) {
  const auto host_of = [&job](const v1::JobRank& r) -> std::string {
    for (const v1::JobNode& node : job.nodes()) {
      if (node.index() == r.node_index()) return node.host();
    }
    return "?";
  };
  // Ranks usually stand at their own index.
  if (rank < static_cast<uint32_t>(job.ranks_size())) {
    const v1::JobRank& r = job.ranks(static_cast<int>(rank));
    if (r.rank() == rank) return host_of(r);
  }
  for (const v1::JobRank& r : job.ranks()) {
    if (r.rank() == rank) return host_of(r);
  }
  return "?";
}

std::vector<uint32_t> RanksOf(const v1::Job& job, uint32_t node_index) {
  std::vector<uint32_t> ranks;
  for (const v1::JobRank& rank : job.ranks()) {
    if (rank.node_index() == node_index) ranks.push_back(rank.rank());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::string Count(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace muster
