#include "coordinator/core/pairing.h"

namespace muster {

Pairs PairsOfRound(size_t count, size_t round) {
  Pairs pairs;
  if (count < 2) return pairs;
  // The circle method: the last place stands still, the others move around it. With an odd number
  // the last place is nobody.
  const size_t places = count + count % 2;
  const size_t moving = places - 1;
  for (size_t i = 0; i < places / 2; ++i) {
    const size_t first = i == 0 ? moving : (round + i) % moving;
    const size_t second = (round + moving - i) % moving;
    if (first >= count || second >= count) continue;
    pairs.emplace_back(first < second ? first : second, first < second ? second : first);
  }
  return pairs;
}

}  // namespace muster
