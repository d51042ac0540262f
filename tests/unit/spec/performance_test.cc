// Coarse bounds that only an accidental quadratic could exceed, ten times what a loaded machine
// needs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "coordinator/spec/job_yaml.h"
#include "coordinator/spec/selection.h"
#include "tests/unit/spec/spec_test_util.h"

namespace muster {
namespace {

constexpr double kLimitSeconds = 8;

// Processor time of this process: other processes of the machine do not count.
class Stopwatch {
 public:
  double Seconds() const { return static_cast<double>(std::clock() - start_) / CLOCKS_PER_SEC; }

 private:
  std::clock_t start_ = std::clock();
};

TEST(Performance, AThousandHostsAreReadAndChosenAtOnce) {
  std::string text, include;
  for (int i = 1; i <= 1000; ++i) {
    text += fmt::format("host-{}.example.net slots=8\n", i);
    include += fmt::format("{}host-{}.example.net:0-3", i == 1 ? "" : "@", i);
  }
  const Stopwatch watch;
  Diagnostics diagnostics;
  auto hosts = ParseHostfile(text, "hosts", diagnostics);
  Selection selection;
  selection.include = include;
  hosts = SelectHosts(std::move(hosts), selection, diagnostics);
  EXPECT_LT(watch.Seconds(), kLimitSeconds);
  EXPECT_EQ(diagnostics.ErrorText(), "");
  ASSERT_EQ(hosts.size(), 1000u);
  EXPECT_EQ(ShowHost(hosts[999]), "host-1000.example.net:8[0,1,2,3]");
}

TEST(Performance, HostfilesOfTheLargestSizeAreReadInTime) {
  const Stopwatch watch;
  Diagnostics diagnostics;
  EXPECT_EQ(ParseHostfile("n[1-11][1-10][1-10][1-10][1-10] slots=1", "hosts", diagnostics).size(),
            0u);
  EXPECT_EQ(ParseHostfile("n[0-9][0-9][0-9][0-9][0-9] slots=1", "hosts2", diagnostics).size(),
            100000u);
  EXPECT_LT(watch.Seconds(), kLimitSeconds);
}

TEST(Performance, SmallFilesCannotAskForManyExpansions) {
  // Each line names one host twice, which is found only when the range was expanded.
  std::string lines, expression, keys = "hostfile: h\nscript: s\nnode_env:\n";
  for (int i = 0; i < 20000; ++i) {
    lines += "n[1-9999,1] slots=1\n";
    expression += "n[1-9999,1]@";
    keys += fmt::format("  'm{}-[1-9999,1]': {{A: 1}}\n", i);
  }
  const Stopwatch watch;
  Diagnostics diagnostics;
  ParseHostfile(lines, "hosts", diagnostics);
  ParseJobYaml(keys, "job.yaml", diagnostics);
  Selection selection;
  selection.include = expression;
  SelectHosts({}, selection, diagnostics);
  EXPECT_LT(watch.Seconds(), kLimitSeconds);
  EXPECT_FALSE(diagnostics.ok());
}

TEST(Performance, EnvFilesWithManyOpenQuotesTakeLinearTime) {
  std::string text;
  for (int i = 0; i < 50000; ++i)
    text += fmt::format("A{}=\"$(\n", 2 * i) + fmt::format("B{}='\n", i);
  text += std::string(200000, '$') + "(\nC=" + std::string(200000, '`') + "\n";
  for (int i = 0; i < 100000; ++i) text += "$(";
  const Stopwatch watch;
  ParseEnv(text);
  ParseEnv("A=" + text.substr(text.size() - 200000));
  EXPECT_LT(watch.Seconds(), kLimitSeconds);
}

TEST(Performance, JobFilesOfTheLargestSizeAreReadInTime) {
  std::string text = "hostfile: h\nscript: s\nargs:\n";
  while (text.size() < kMaxJobFileBytes - 100) text += "- --some-argument=with-a-value\n";
  const Stopwatch watch;
  Diagnostics diagnostics;
  const JobFile job = ParseJobYaml(text, "job.yaml", diagnostics);
  EXPECT_EQ(diagnostics.ErrorText(), "");
  EXPECT_GT(job.args.size(), 30000u);
  EXPECT_LT(watch.Seconds(), kLimitSeconds);
}

TEST(Performance, UnknownKeysByTheThousandAreReportedInTime) {
  std::string text;
  for (int i = 0; i < 40000; ++i) text += fmt::format("unknown_key_{}: 1\n", i);
  const Stopwatch watch;
  Diagnostics diagnostics;
  ParseJobYaml(text, "job.yaml", diagnostics);
  EXPECT_GT(diagnostics.dropped_errors, 30000u);
  EXPECT_LT(watch.Seconds(), kLimitSeconds);
}

}  // namespace
}  // namespace muster
