// A fuzz target: reads arbitrary bytes with one parser and checks what must hold for every input.
// Shared by the fuzzers and by the unit test that replays the corpora. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster {

struct FuzzTarget {
  // Also the name of the folder in tests/fuzz/corpus.
  const char* name;
  // Empty, or the invariant that does not hold.
  std::string (*run)(std::string_view bytes);
};

}  // namespace muster
