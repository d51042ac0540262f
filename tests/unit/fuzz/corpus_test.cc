// Replays the seed corpus of every fuzz target, so that what fuzzing once found stays fixed in
// ordinary builds too. Reads files of the source tree.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/log_targets.h"
#include "tests/fuzz/spec_targets.h"
#include "tests/fuzz/trust_targets.h"

namespace muster {
namespace {

class Corpus : public ::testing::TestWithParam<FuzzTarget> {};

TEST_P(Corpus, HoldsTheTargetsInvariants) {
  const FuzzTarget& target = GetParam();
  const std::filesystem::path folder = std::filesystem::path(MUSTER_FUZZ_CORPUS) / target.name;
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    SCOPED_TRACE(entry.path().string());
    EXPECT_EQ(target.run(bytes), "");
    ++files;
  }
  EXPECT_GT(files, 0u) << folder;
}

std::string Name(const testing::TestParamInfo<FuzzTarget>& target) { return target.param.name; }

INSTANTIATE_TEST_SUITE_P(Spec, Corpus, testing::ValuesIn(SpecFuzzTargets()), Name);
INSTANTIATE_TEST_SUITE_P(Logs, Corpus, testing::ValuesIn(LogFuzzTargets()), Name);
INSTANTIATE_TEST_SUITE_P(Trust, Corpus, testing::ValuesIn(TrustFuzzTargets()), Name);

}  // namespace
}  // namespace muster
