#include "agent/shim/log_growth.h"

namespace muster::shim {

void LogGrowth::Tell(SteadyTime now) {
  if (!Due() || !link_.CanSend() || now < next_) return;
  if (told_attach_ != link_.attaches()) {
    for (const auto& [rank, fixed_bytes] : fixed_) grown_.insert(rank);
  }
  internal::ShimRecord packet;
  internal::ShimLogsGrew& grew = *packet.mutable_logs_grew();
  for (const uint32_t rank : grown_) {
    grew.add_ranks(rank);
    grew.add_fixed_bytes(fixed_[rank]);
  }
  if (!grown_.empty() && !link_.Send(packet)) return;
  told_attach_ = link_.attaches();
  grown_.clear();
  next_ = now + kInterval;
}

std::optional<SteadyTime> LogGrowth::deadline() const {
  if (!Due() || !link_.CanSend()) return std::nullopt;
  return next_;
}

}  // namespace muster::shim
