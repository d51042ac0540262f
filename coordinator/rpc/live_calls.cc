#include "coordinator/rpc/live_calls.h"

#include <algorithm>
#include <utility>

namespace muster {

void LiveCalls::Add(const std::string& serial, const std::string& certificate,
                    const std::shared_ptr<LiveCall>& call) {
  {
    MutexLock lock(mutex_);
    if (!cut_.contains(serial)) {
      Calls& own = calls_[serial];
      own.certificate = certificate;
      std::erase_if(own.calls,
                    [](const std::weak_ptr<LiveCall>& other) { return other.expired(); });
      own.calls.push_back(call);
      return;
    }
  }
  call->Cut();
}

void LiveCalls::Take(const std::string& serial, Cutting& cut) {
  const auto found = calls_.find(serial);
  if (found == calls_.end()) return;
  for (const std::weak_ptr<LiveCall>& weak : found->second.calls) {
    if (std::shared_ptr<LiveCall> call = weak.lock()) cut.push_back(std::move(call));
  }
  calls_.erase(found);
}

size_t LiveCalls::CutAll(const std::vector<std::string>& serials) {
  Cutting cut;
  {
    MutexLock lock(mutex_);
    for (const std::string& serial : serials) {
      cut_.insert(serial);
      Take(serial, cut);
    }
  }
  for (const std::shared_ptr<LiveCall>& call : cut) call->Cut();
  return cut.size();
}

size_t LiveCalls::CutUnless(const std::function<bool(const std::string& certificate)>& is_good) {
  std::vector<std::pair<std::string, std::string>> all;
  {
    MutexLock lock(mutex_);
    std::erase_if(calls_, [](const auto& entry) {
      const auto& calls = entry.second.calls;
      return std::all_of(calls.begin(), calls.end(),
                         [](const std::weak_ptr<LiveCall>& call) { return call.expired(); });
    });
    for (const auto& [serial, own] : calls_) all.emplace_back(serial, own.certificate);
  }
  std::erase_if(all, [&](const auto& entry) { return is_good(entry.second); });
  Cutting cut;
  {
    MutexLock lock(mutex_);
    for (const auto& [serial, certificate] : all) Take(serial, cut);
  }
  for (const std::shared_ptr<LiveCall>& call : cut) call->Cut();
  return cut.size();
}

}  // namespace muster
