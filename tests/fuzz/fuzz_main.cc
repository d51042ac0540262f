// One fuzzer: MUSTER_FUZZ_TARGET names the function that it calls.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/fuzz/log_targets.h"
#include "tests/fuzz/spec_targets.h"
#include "tests/fuzz/trust_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string problem =
      muster::MUSTER_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  if (!problem.empty()) {
    std::fprintf(stderr, "invariant broken: %s\n", problem.c_str());
    std::abort();
  }
  return 0;
}
