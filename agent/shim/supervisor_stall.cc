// The watchdog for ranks that hang. It tells; what is to be done about it is not decided here.

#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "agent/shim/stall_watch.h"
#include "agent/shim/supervisor.h"

namespace muster::shim {
namespace {

std::string DescribeSome(const std::vector<const ProcessInfo*>& processes) {
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < processes.size() && i < kMost; ++i) {
    text += (i == 0 ? "" : ", ") + DescribeProcess(*processes[i]);
  }
  if (processes.size() > kMost) {
    text += " and " + std::to_string(processes.size() - kMost) + " more";
  }
  return text;
}

}  // namespace

void Supervisor::WatchForStalls(SteadyTime now) {
  const milliseconds after(bootstrap_.stall_after_ms());
  if (after.count() == 0) return;
  stall_watches_.assign(ranks_.size(), StallWatch(now, after));
  next_stall_look_ = now + StallWatch::Interval(after);
}

void Supervisor::LookForStalls(SteadyTime now) {
  next_stall_look_.reset();
  if (phase_ != Phase::kRunning || stopping_) return;
  next_stall_look_ = now + StallWatch::Interval(milliseconds(bootstrap_.stall_after_ms()));
  const std::vector<ProcessInfo> processes = DescendantsOf(::getpid());
  const std::vector<int> owners = Attribute(processes);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    RankProcess& rank = *ranks_[i];
    if (!rank.alive()) continue;
    StallWatch::Sample sample{.output_bytes = rank.log().written_bytes()};
    std::vector<const ProcessInfo*> own;
    for (size_t p = 0; p < processes.size(); ++p) {
      if (owners[p] != static_cast<int>(i)) continue;
      sample.cpu_ticks += processes[p].cpu_ticks;
      if (!processes[p].dead()) own.push_back(&processes[p]);
    }
    const StallWatch::Change change = stall_watches_[i].Look(now, sample);
    const auto silent_ms = static_cast<uint64_t>(stall_watches_[i].silence().count());
    internal::ShimRecord record;
    switch (change) {
      case StallWatch::Change::kNone:
        continue;
      case StallWatch::Change::kStalled:
        record.mutable_rank_stalled()->set_rank(rank.number());
        record.mutable_rank_stalled()->set_silent_ms(silent_ms);
        record.mutable_rank_stalled()->set_detail(DescribeSome(own));
        break;
      case StallWatch::Change::kResumed:
        record.mutable_rank_resumed()->set_rank(rank.number());
        record.mutable_rank_resumed()->set_silent_ms(silent_ms);
        break;
    }
    journal_.Add(std::move(record), /*durable=*/false);
  }
}

}  // namespace muster::shim
