#include "agent/node/container_host.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "tests/process/agent/temp_directory.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

TEST(LookForEngines, FindsTheFirstProgramInThePathOfTheAgent) {
  const TempDirectory temp;
  const std::string root = temp.path();
  for (const char* folder : {"/a", "/b", "/a/podman"}) fs::create_directory(root + folder);
  for (const char* file : {"/a/docker", "/b/docker", "/b/podman", "/b/docker-init"}) {
    std::ofstream(root + file) << "#!/bin/sh\n";
    fs::permissions(root + file, fs::perms::owner_all);
  }
  fs::permissions(root + "/a/docker", fs::perms::owner_read);
  const ContainerHost host =
      LookForEngines({"HOME=/", "PATH=.:" + root + "/none:" + root + "/a:" + root + "/b"});
  // What is no file, or no program, is passed by.
  EXPECT_EQ(host.docker.program, root + "/b/docker");
  EXPECT_TRUE(host.docker.has_init);
  EXPECT_EQ(host.podman.program, root + "/b/podman");

  const ContainerHost none = LookForEngines({"PATH=" + root + "/none"});
  EXPECT_EQ(none.docker.program, "");
  EXPECT_EQ(none.podman.program, "");
}

TEST(LookForEngines, TellsTheLimitsThatRanksCanHave) {
  struct rlimit files = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_EQ(LookForEngines({}).open_files,
            files.rlim_max == RLIM_INFINITY ? kNoLimit : files.rlim_max);
}

}  // namespace
}  // namespace muster
