// The example clients of the gRPC API, in C++ and Python, against a real coordinator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/integration/sandbox/cluster.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Cluster;
using testing::CommandRun;
using ::testing::HasSubstr;
using ::testing::Not;

class ExampleClients : public ::testing::TestWithParam<bool> {
 protected:
  ExampleClients() : cluster_(2, 1), box_(cluster_.box()) {
    box_.Set("PYTHONPATH", PYTHON_STUBS);
    cluster_.Start();
  }
  CommandRun Start(const std::string& request_id, const std::string& script,
                   std::vector<std::string> arguments = {}) {
    for (const std::string& word :
         {"unix:" + cluster_.socket(), request_id, std::string("node-1,node-2"),
          std::string("/bin/sh"), std::string("-c"), script}) {
      arguments.push_back(word);
    }
    if (!GetParam()) return box_.StartProgram("example_client", arguments);
    std::vector<std::string> words = {EXAMPLE_CLIENT_PY};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return box_.StartProgram("/usr/bin/python3", words);
  }

  Cluster cluster_;
  testing::Sandbox& box_;
};

TEST_P(ExampleClients, SubmitWatchAndReadLogs) {
  // Rank 1 fails, which ends rank 0, only after rank 0 has written.
  const std::string wrote = box_.Path("wrote.");
  CommandRun run = Start("one", "echo to stdout $RANK; echo to stderr $RANK >&2; : > " + wrote +
                                    "$RANK; while ! [ -e " + wrote +
                                    "0 ]; do sleep 0.01; done; exit $((RANK * 7))");
  EXPECT_EQ(run.Wait(), 7) << run.err();
  EXPECT_THAT(run.out(), AllOf(HasSubstr("to stdout 0\n"), HasSubstr("to stdout 1\n")));
  EXPECT_THAT(run.err(), AllOf(HasSubstr("to stderr 1\n"), HasSubstr("state RUNNING"),
                               HasSubstr("state FAILED")));
}

TEST_P(ExampleClients, GetOnlyLinesThatMatch) {
  CommandRun run =
      Start("grep", "echo one $RANK; echo two $RANK; echo two err >&2", {"--grep", "^two [0-9]$"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(), ::testing::AnyOf("two 0\ntwo 1\n", "two 1\ntwo 0\n"));
  EXPECT_THAT(run.err(), Not(HasSubstr("two err")));
}

TEST_P(ExampleClients, TheSameRequestIdIsTheSameJob) {
  const std::string script = "echo ran >> " + box_.Path("runs");
  CommandRun first = Start("same", script);
  EXPECT_EQ(first.Wait(), 0) << first.err();
  CommandRun second = Start("same", script);
  EXPECT_EQ(second.Wait(), 0) << second.err();
  const std::string runs = box_.Read("runs");
  EXPECT_EQ(std::count(runs.begin(), runs.end(), '\n'), 2) << "one per rank";
}

TEST_P(ExampleClients, TellThatThereIsNoCoordinator) {
  cluster_.KillCoordinator();
  CommandRun run = Start("none", "true");
  EXPECT_EQ(run.Wait(), 122);
  EXPECT_THAT(run.err(), HasSubstr("submit: "));
}

INSTANTIATE_TEST_SUITE_P(Language, ExampleClients, ::testing::Bool(), [](const auto& python) {
  return std::string(python.param ? "Python" : "Cpp");
});

}  // namespace
}  // namespace muster
