// The engine of ranks in containers, as a shim calls it. Its life with real containers is in
// tests/integration/cli/run_container_test.cc and in tests/containers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/process/shim/shim_client.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Nobody has this number.
constexpr uint32_t kUid = 54321;

class ShimContainer : public ::testing::Test {
 protected:
  ShimContainer() {
    shim_.bootstrap.set_working_directory("/");
    calls_ = folder_.path() + "/calls";
    std::ofstream(calls_).close();
    ::chmod(calls_.c_str(), 0666);
    ::chmod(folder_.path().c_str(), 0755);
  }

  // The engine is a shell script; `body` sees its command in $1 and more.
  void UseEngine(const std::string& body) {
    const std::string program = folder_.path() + "/engine";
    std::ofstream(program) << "#!/bin/sh\necho \"$(id -u) $*\" >> " << calls_ << "\n"
                           << body << "\n";
    ::chmod(program.c_str(), 0755);
    internal::ShimEngine& engine = *shim_.bootstrap.mutable_engine();
    engine.set_program(program);
    engine.set_name("podman");
    engine.add_options("--global");
    engine.add_labels("muster.job=j");
    engine.add_labels("muster.attempt=1");
    engine.add_env("PATH=/usr/bin:/bin");
    engine.set_image("img");
    internal::ShimRank& rank = shim_.AddRank({program, "run", "img"});
    rank.set_container("muster-j-1-0");
    rank.set_env_file("A=of the file\n");
  }
  std::string Calls() const {
    std::ifstream file(calls_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  AttemptFolder folder_;
  ShimClient shim_{folder_.path(), "a", folder_.path() + "/leases"};
  std::string calls_;
};

TEST_F(ShimContainer, IsAskedForTheImageTheEndAndWhatIsLeft) {
  UseEngine("[ \"$1\" != run ] || { cat /dev/stdin; exit 125; }");
  ASSERT_TRUE(shim_.RunToEnd());
  EXPECT_EQ(Calls().find(" --global image inspect --format {{.Id}} img\n"), Calls().find(' '));
  EXPECT_THAT(Calls(), HasSubstr(" --global ps -a --no-trunc --format {{.ID}} {{.Names}} --filter "
                                 "label=muster.job=j --filter label=muster.attempt=1\n"));
  EXPECT_THAT(Calls(), Not(HasSubstr(" rm ")));
  const auto* exited = shim_.WaitExited(0, 0);
  ASSERT_NE(exited, nullptr);
  EXPECT_EQ(exited->kind(), internal::ShimRankExited::EXEC_FAILED);
  EXPECT_EQ(exited->step(), "engine");
  EXPECT_EQ(shim_.Log(0).stdout_bytes, "A=of the file\n");
}

TEST_F(ShimContainer, IsCalledAsTheUserOfTheJobOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "it takes root to become somebody else";
  internal::ShimRunAs& user = *shim_.bootstrap.mutable_run_as();
  user.set_name("probe");
  user.set_uid(kUid);
  user.set_gid(kUid);
  user.add_groups(kUid);
  // One container is there until it is removed.
  UseEngine("case $2 in\nps) grep -q ' rm ' " + calls_ +
            " || echo 'aa muster-j-1-0';;\ncontainer) echo 'false|7|false|2026';;\nesac\n"
            "[ \"$1\" != run ] || { cat /dev/stdin; exit 1; }");
  ASSERT_TRUE(shim_.RunToEnd());
  EXPECT_THAT(Calls(), AllOf(HasSubstr("54321 --global image inspect"), HasSubstr("54321 run img"),
                             HasSubstr("54321 --global container inspect"),
                             HasSubstr("54321 --global kill --signal=KILL aa\n"),
                             HasSubstr("54321 --global rm -f aa\n"), Not(HasSubstr("\n0 "))));
  EXPECT_EQ(Calls().substr(0, 6), "54321 ");
  EXPECT_EQ(shim_.Log(0).stdout_bytes, "A=of the file\n");
  const auto* exited = shim_.WaitExited(0, 0);
  ASSERT_NE(exited, nullptr);
  EXPECT_EQ(exited->kind(), internal::ShimRankExited::CODE);
  EXPECT_EQ(exited->value(), 7);
}

TEST_F(ShimContainer, ThatHangsDoesNotKeepTheShimFromStopping) {
  UseEngine("case $2 in image) exec sleep 60;; esac");
  shim_.Start();
  ASSERT_TRUE(shim_.Connect());
  ASSERT_TRUE(Eventually([&] { return Calls().find("image inspect") != std::string::npos; }));
  shim_.Stop(0);
  EXPECT_NE(shim_.WaitStopped(5), nullptr);
}

}  // namespace
}  // namespace muster::testing
