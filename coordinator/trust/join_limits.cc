#include "coordinator/trust/join_limits.h"

#include <algorithm>
#include <utility>

#include "coordinator/trust/ip_address.h"

namespace muster {

double JoinRate::LeftAt(const Bucket& bucket, TimePoint now) const {
  const std::chrono::duration<double, std::ratio<60>> minutes = now - bucket.at;
  return std::min<double>(per_minute_, bucket.left + minutes.count() * per_minute_);
}

void JoinRate::MakeRoom(TimePoint now) {
  std::erase_if(buckets_,
                [&](const auto& entry) { return LeftAt(entry.second, now) >= per_minute_; });
  if (buckets_.size() < kMaxAddresses) return;
  buckets_.erase(std::max_element(
      buckets_.begin(), buckets_.end(),
      [&](const auto& a, const auto& b) { return LeftAt(a.second, now) < LeftAt(b.second, now); }));
}

JoinRate::Answer JoinRate::Ask(std::string_view address, TimePoint now) {
  const std::string owner = IpOwner(address);
  auto found = buckets_.find(owner);
  if (found == buckets_.end()) {
    if (buckets_.size() >= kMaxAddresses) MakeRoom(now);
    found = buckets_.emplace(owner, Bucket{static_cast<double>(per_minute_), now}).first;
  }
  Bucket& bucket = found->second;
  bucket.left = LeftAt(bucket, now);
  bucket.at = now;
  if (bucket.left < 1) {
    return std::exchange(bucket.told, true) ? Answer::kRefused : Answer::kRefusedFirst;
  }
  bucket.left -= 1;
  bucket.told = false;
  return Answer::kAllowed;
}

}  // namespace muster
