#include "coordinator/core/card_use.h"

#include <fmt/format.h>

namespace muster {

std::string HolderText(const JobEntry& entry) {
  std::string text = fmt::format("job {}", entry.id.value());
  if (!entry.record.submitter.empty()) {
    text = fmt::format("{}, {}", entry.record.submitter, text);
  }
  const std::string& name = entry.record.spec->name();
  return name.empty() ? text : fmt::format("{} ({})", text, name);
}

CardUse UseOfCards(const NodeEntry& node, const std::string& boot_id, const JobIndex& jobs) {
  CardUse use;
  for (const AttemptNodeRef& ref : jobs.OnNode(node.id)) {
    const AttemptRecord& attempt = *ref.job->record.FindAttempt(ref.attempt);
    const NodeProgress& progress = attempt.nodes[ref.node_index];
    if (!progress.slots_are_modules || progress.gone || progress.boot_id != boot_id) continue;
    const bool ends = attempt.over() || attempt.stop.has_value();
    auto& cards = ends ? use.doubtful : use.taken;
    const std::string holder = HolderText(*ref.job) + (ends ? ", which is ending" : "");
    for (const uint32_t rank : progress.ranks) cards.emplace(attempt.ranks[rank].slot, holder);
  }
  for (const v1::DeviceReading& reading : node.readings) {
    if (reading.holders().empty() || use.taken.contains(reading.module_id())) continue;
    const v1::DeviceHolder& holder = reading.holders(0);
    use.doubtful.emplace(
        reading.module_id(),
        fmt::format("pid {} of {}{}", holder.pid(), holder.user(),
                    holder.command().empty() ? "" : fmt::format(" ({})", holder.command())));
  }
  return use;
}

}  // namespace muster
