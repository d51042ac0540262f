#include "agent/shim/log_growth.h"

namespace muster::shim {

void LogGrowth::Tell(SteadyTime now) {
  if (grown_.empty() || !link_.CanSend() || now < next_) return;
  internal::ShimRecord packet;
  for (const uint32_t rank : grown_) packet.mutable_logs_grew()->add_ranks(rank);
  if (!link_.Send(packet)) return;
  grown_.clear();
  next_ = now + kInterval;
}

std::optional<SteadyTime> LogGrowth::deadline() const {
  if (grown_.empty() || !link_.CanSend()) return std::nullopt;
  return next_;
}

}  // namespace muster::shim
