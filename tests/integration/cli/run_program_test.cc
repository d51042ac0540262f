// What a rank is made of: program, arguments, folder, limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/integration/sandbox/command_run.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::CommandRun;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Sandbox;

// Writes its arguments, each with a NUL behind it, and its folder.
constexpr char kTell[] = R"(import os, sys
top = os.environ['SANDBOX'] + '/'
rank = os.environ['RANK']
with open(top + 'argv.' + rank, 'wb') as stream:
    stream.write(b''.join(os.fsencode(word) + b'\0' for word in sys.argv[1:]))
with open(top + 'cwd.' + rank, 'wb') as stream:
    stream.write(os.getcwdb())
)";

class RunProgram : public ::testing::Test {
 protected:
  RunProgram() {
    box_.Hosts(2, 1);
    box_.Set("SANDBOX", box_.path());
    box_.Write("tell.py", kTell);
  }

  void ExpectSuccess(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"spawn", "--hostfile", "hosts"});
    CommandRun run = box_.Run(arguments);
    EXPECT_EQ(run.Wait(), 0) << run.err();
  }

  static std::string Joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += word + '\0';
    return text;
  }

  Sandbox box_;
};

TEST_F(RunProgram, ArgumentsArriveByteForByte) {
  const std::vector<std::string> words = {"",
                                          " ",
                                          "it's here",
                                          "she said \"so\"",
                                          R"({"lr": 1e-4, "betas": [0.9, 0.95]})",
                                          "two\nlines",
                                          "a\ttab",
                                          "$HOME ${RANK} %s %n !x",
                                          "$(touch ran)",
                                          "`touch ran`",
                                          ">ran",
                                          ";touch ran",
                                          "&&",
                                          "|",
                                          "*",
                                          "~",
                                          "#7",
                                          "-7",
                                          "--prompt=once upon a time",
                                          "--",
                                          "--help",
                                          "--hostfile",
                                          "--local",
                                          "\\",
                                          "\\n",
                                          "\xC3\xBC\xE2\x82\xAC",
                                          "\xFF\x01\xFE"};
  std::vector<std::string> arguments = {"tell.py"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  ExpectSuccess(arguments);
  EXPECT_EQ(box_.Read("argv.0"), Joined(words));
  EXPECT_EQ(box_.Read("argv.1"), Joined(words));
  EXPECT_FALSE(box_.Has("ran"));
}

TEST_F(RunProgram, AShellGetsItsScriptInOnePiece) {
  box_.Write(".deepspeed_env", "GREETING=good day\n");
  ExpectSuccess({"--no_python", "--no_local_rank", "/bin/sh", "-c",
                 R"(X=1 exec python3 tell.py "$GREETING" "of $RANK" "$@")", "sh", "--beta", "c d"});
  EXPECT_EQ(box_.Read("argv.1"), Joined({"good day", "of 1", "--beta", "c d"}));
}

TEST_F(RunProgram, AModuleGetsItsArguments) {
  std::filesystem::create_directory(box_.Path("tools"));
  box_.Write("tools/__init__.py", "");
  box_.Write("tools/tell.py", kTell);
  ExpectSuccess({"--module", "tools.tell", "--key", "v w"});
  EXPECT_EQ(box_.Read("argv.1"), Joined({"--key", "v w"}));
  CommandRun both =
      box_.Run({"spawn", "--hostfile", "hosts", "--module", "--no_python", "tools.tell"});
  EXPECT_EQ(both.Wait(), 2);
  EXPECT_THAT(both.err(), AllOf(ContainsRegex("no.python"), HasSubstr("module")));
}

TEST_F(RunProgram, PathsMayHoldBlanksAndAnyBytes) {
  // Latin-1 and UTF-8: no encoding is right for both.
  const std::string folder = "caf\xE9 \xC3\xA4 $x";
  std::filesystem::create_directories(box_.Path(folder + "/sub dir"));
  box_.Write(folder + "/sub dir/it's \"so\".py", kTell);
  ExpectSuccess({"--cwd", folder, "sub dir/it's \"so\".py"});
  EXPECT_EQ(box_.Read("cwd.0"), box_.Path(folder));
  EXPECT_EQ(box_.Read("cwd.1"), box_.Path(folder));
}

TEST_F(RunProgram, WhatIsMissingIsToldWithItsNodeBeforeAnythingStarts) {
  for (const auto& [flags, culprit] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"gone/tell.py"}, "gone/tell.py"},
           {{"--cwd", "/no/such/folder", "tell.py"}, "/no/such/folder"},
           {{"--cwd", "tell.py", "tell.py"}, box_.Path("tell.py")},
           {{"--python", "/no/such/python", "tell.py"}, "/no/such/python"},
           {{"--no_python", "./no-such-program"}, "no-such-program"}}) {
    std::vector<std::string> arguments = {"spawn", "--hostfile", "hosts"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    CommandRun run = box_.Run(arguments);
    EXPECT_NE(run.Wait(), 0) << culprit;
    EXPECT_THAT(run.err(), AllOf(HasSubstr(culprit), ContainsRegex("node-[12]")));
    EXPECT_FALSE(box_.Has("argv.0") || box_.Has("argv.1")) << culprit;
    EXPECT_THAT(box_.Processes(), IsEmpty());
  }
}

TEST_F(RunProgram, LimitsAreRaisedToWhatTheMachineAllows) {
  rlimit files = {};
  rlimit memory = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &memory), 0);
  // As a service manager leaves them.
  box_.LimitSoftly(RLIMIT_NOFILE, 300);
  box_.LimitSoftly(RLIMIT_MEMLOCK, 65536);
  box_.Write("limits.py", R"(import os, resource
limits = [resource.getrlimit(r)[0] for r in (resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK)]
open('limits.' + os.environ['RANK'], 'w').write(repr(limits))
)");
  ExpectSuccess({"limits.py"});
  const auto text = [](rlim_t limit) {
    return limit == RLIM_INFINITY ? std::string("-1") : std::to_string(limit);
  };
  const std::string open_files = "[" + text(files.rlim_max) + ", ";
  EXPECT_THAT(box_.Read("limits.1"),
              ::testing::AnyOf(open_files + text(memory.rlim_max) + "]",
                               // A shim that may raise hard limits too does so.
                               open_files + "-1]"));
}

}  // namespace
}  // namespace muster
