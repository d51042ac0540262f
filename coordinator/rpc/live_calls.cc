#include "coordinator/rpc/live_calls.h"

#include <utility>

namespace muster {

void LiveCalls::Add(const std::string& serial, const std::shared_ptr<LiveCall>& call) {
  {
    MutexLock lock(mutex_);
    if (!cut_.contains(serial)) {
      std::vector<std::weak_ptr<LiveCall>>& calls = calls_[serial];
      std::erase_if(calls, [](const std::weak_ptr<LiveCall>& other) { return other.expired(); });
      calls.push_back(call);
      return;
    }
  }
  call->Cut();
}

size_t LiveCalls::CutAll(const std::vector<std::string>& serials) {
  std::vector<std::shared_ptr<LiveCall>> cut;
  {
    MutexLock lock(mutex_);
    for (const std::string& serial : serials) {
      cut_.insert(serial);
      const auto found = calls_.find(serial);
      if (found == calls_.end()) continue;
      for (const std::weak_ptr<LiveCall>& weak : found->second) {
        if (std::shared_ptr<LiveCall> call = weak.lock()) cut.push_back(std::move(call));
      }
      calls_.erase(found);
    }
  }
  for (const std::shared_ptr<LiveCall>& call : cut) call->Cut();
  return cut.size();
}

}  // namespace muster
