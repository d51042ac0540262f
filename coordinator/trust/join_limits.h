// How much strangers can ask of the join port. The rate of each address is a bucket that holds
// `per_minute` and fills evenly. Not thread-safe; pure over the times that it is given.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace muster {

struct JoinLimits {
  // From the first byte to the last, for each connection.
  std::chrono::milliseconds in_all = std::chrono::seconds(5);
  // Connections on which something was received.
  size_t at_once = 16;
  // Of those, from one address (IPv6: of one /64).
  size_t at_once_of_one = 4;
  // Connections, with those on which nothing was received: of these the oldest makes room.
  size_t connections = 256;
  // Connections of one address (IPv6: of one /64).
  int per_minute = 60;
};

class JoinRate {
 public:
  enum class Answer { kAllowed, kRefusedFirst, kRefused };

  explicit JoinRate(int per_minute) : per_minute_(per_minute) {}
  // kRefusedFirst: the first refusal since it was allowed last, so that a flood is told once.
  Answer Ask(std::string_view address, TimePoint now);

  // Addresses that are remembered; beyond that the one that asked least of late is forgotten.
  static constexpr size_t kMaxAddresses = 4096;

 private:
  struct Bucket {
    double left = 0;
    TimePoint at;
    bool told = false;
  };
  double LeftAt(const Bucket& bucket, TimePoint now) const;
  void MakeRoom(TimePoint now);

  int per_minute_;
  std::map<std::string, Bucket, std::less<>> buckets_;
};

}  // namespace muster
