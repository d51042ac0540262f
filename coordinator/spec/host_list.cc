#include "coordinator/spec/host_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/config/text.h"
#include "coordinator/spec/host_name.h"
#include "coordinator/spec/hostfile.h"

namespace muster {

std::string ParseSlotList(std::string_view text, uint32_t limit, std::vector<uint32_t>& slots) {
  slots.clear();
  for (const std::string_view element : Split(text, ',')) {
    const size_t dash = element.find('-');
    const std::string_view first = element.substr(0, dash);
    const std::string_view last = dash == std::string_view::npos ? first : element.substr(dash + 1);
    const auto low = ParseNumber(first, UINT32_MAX);
    const auto high = ParseNumber(last, UINT32_MAX);
    if (!low || !high) {
      return fmt::format("expected slot numbers such as 0,2 or 4-7, found {}", Quoted(element));
    }
    if (*high < *low) {
      return fmt::format("slots {} run backwards (write {}-{})", Quoted(element), *high, *low);
    }
    if (*high >= limit)
      return fmt::format("slot {} is beyond the last possible one, {}", *high, limit - 1);
    // Overlapping ranges may repeat, but never more often than slots exist.
    if (slots.size() > 2 * size_t{limit}) return "the list of slots is too long";
    for (uint64_t slot = *low; slot <= *high; ++slot) slots.push_back(static_cast<uint32_t>(slot));
  }
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return {};
}

void HostList::CheckCounts(const HostLine& line) {
  const auto error = [&](std::string message) {
    diagnostics_.Error(file_, line.line, std::move(message));
  };
  if (line.slots && *line.slots == 0) {
    error("slots must be at least 1, got 0 (remove the line to leave the host out)");
  }
  if (line.slots && line.max_slots && *line.max_slots < *line.slots) {
    error(fmt::format("max_slots={} is below slots={}", *line.max_slots, *line.slots));
  }
  if (!line.slots && line.max_slots) {
    error(fmt::format("max_slots needs slots (write slots={})", *line.max_slots));
  }
  if (line.slots && !line.modules.empty() && line.modules.size() != *line.slots) {
    error(fmt::format("modules names {} cards, but slots={} (make them equal, or leave slots out)",
                      line.modules.size(), *line.slots));
  }
}

void HostList::Add(const HostLine& line) {
  CheckCounts(line);
  if (full_) return;
  HostPattern pattern = ParseHostPattern(line.host, budget_);
  full_ = budget_ == 0 && pattern.hosts.empty();
  if (!pattern.error.empty()) diagnostics_.Error(file_, line.line, std::move(pattern.error));
  if (!line.address.empty() && pattern.hosts.size() > 1) {
    diagnostics_.Error(
        file_, line.line,
        fmt::format("addr is one address, but the line stands for {} hosts", pattern.hosts.size()));
  }
  if (!pattern.user.empty()) {
    IgnoredUser& user = users_[pattern.user];
    if (user.times++ == 0) user.line = line.line;
  }
  if (hosts_.size() + pattern.hosts.size() > kMaxHosts) {
    full_ = true;
    diagnostics_.Error(file_, line.line, fmt::format("more than {} hosts", kMaxHosts));
    return;
  }
  // Hosts of a line with wrong counts still take part, so that repeats of them are found too.
  const std::string source = Origin{std::string(file_), line.line}.Text();
  for (const std::string& host : pattern.hosts) AddHost(line, host, source, pattern.is_range);
}

void HostList::AddHost(const HostLine& line, const std::string& host, const std::string& source,
                       bool from_range) {
  const bool bare = !line.slots && line.modules.empty();
  const auto [it, is_new] =
      seen_.try_emplace(HostKey(host), Seen{hosts_.size(), line.line, bare, from_range, 1});
  if (!is_new) {
    Repeat(it->second, line, host, from_range);
    return;
  }
  v1::HostEntry entry;
  entry.set_host(host);
  entry.set_slot_count(line.slots.value_or(static_cast<uint32_t>(line.modules.size())));
  for (const uint32_t module : line.modules) entry.add_selected_slots(module);
  entry.set_address(line.address);
  entry.set_source(source);
  hosts_.push_back(std::move(entry));
}

void HostList::Repeat(Seen& first, const HostLine& line, const std::string& host, bool from_range) {
  const bool bare = !line.slots && line.modules.empty();
  v1::HostEntry& entry = hosts_[first.index];
  const bool same_address =
      line.address.empty() || entry.address().empty() || entry.address() == line.address;
  if (bare && first.bare && !from_range && !first.from_range && same_address) {
    counts_ranks_ = true;
    ++first.times;
    if (entry.address().empty()) entry.set_address(line.address);
    return;
  }
  std::string_view advice = "name each host once";
  if (from_range || first.from_range) {
    advice = "ranges must not overlap with other lines";
  } else if (bare != first.bare) {
    advice = "a name without slots counts one rank only if all lines of the host are like that";
  } else if (!same_address) {
    advice = "the addresses differ";
  }
  diagnostics_.Error(
      file_, line.line,
      fmt::format("host {} is already on line {} ({})", Quoted(host), first.line, advice));
}

std::vector<v1::HostEntry> HostList::Finish() {
  for (const auto& [user, where] : users_) {
    diagnostics_.Warn(
        file_, where.line,
        fmt::format(
            "user {} is ignored{}: hosts are not reached by SSH, ranks run as the user of the job",
            Quoted(user),
            where.times > 1 ? fmt::format(" here and on {} more lines", where.times - 1) : ""));
  }
  if (counts_ranks_) {
    for (const auto& [key, seen] : seen_) {
      if (seen.bare) hosts_[seen.index].set_slot_count(seen.times);
    }
  }
  uint64_t total = 0;
  for (const v1::HostEntry& host : hosts_) {
    total += host.slot_count();
    if (host.slot_count() > kMaxSlotsPerHost) {
      diagnostics_.Error(file_, 0,
                         fmt::format("host {} has {} lines, at most {} slots are possible",
                                     Quoted(host.host()), host.slot_count(), kMaxSlotsPerHost));
    }
  }
  if (total > kMaxSlots) {
    diagnostics_.Error(
        file_, 0,
        fmt::format("the hosts have {} slots together, at most {} are possible", total, kMaxSlots));
  }
  return std::move(hosts_);
}

}  // namespace muster
