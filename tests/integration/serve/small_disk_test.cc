// State directories on a disk of 1 MiB: nothing crashes, no exit status is lost, people are told,
// and with room again everything goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/integration/sandbox/cluster.h"
#include "tests/process/rank_probe/seeded_bytes.h"

namespace muster {
namespace {

using testing::Cluster;
using testing::CommandRun;
using ::testing::HasSubstr;
using testing::Seconds;
using testing::SeededString;
using testing::WaitUntil;

// A file system of 1 MiB over a folder, as long as the object lives.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& path) : path_(path) {
    std::filesystem::create_directory(path);
    mounted_ = ::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=1m,mode=700") == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  // Until nothing is given back any more by those who use it.
  void Fill() const {
    std::ofstream file(path_ + "/fill", std::ios::binary);
    for (int full = 0; full < 20; ++full) {
      while (file << std::string(4096, 'f') << std::flush) full = 0;
      file.clear();
      // paces: other processes give back what they had.
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  void Clear() const { std::filesystem::remove(path_ + "/fill"); }
  void Grow() const {
    EXPECT_EQ(::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
  }

 private:
  const std::string path_;
  bool mounted_ = false;
};

class SmallDiskTest : public ::testing::Test {
 protected:
  SmallDiskTest() : cluster_(1, 1), box_(cluster_.box()) {
    box_.Write("job.yaml",
               "hostfile: hosts\ngrace: 60s\ncommand: [" + testing::Sandbox::Programs() +
                   "/rank_probe, --bytes, 1, 8000000, 1, --touch, written, --exit, 7]\n");
    box_.Write("short.yaml", "hostfile: hosts\ncommand: [sh, -c, 'echo done; exit 5']\n");
  }
  nlohmann::json LogAccount(const std::string& job) {
    const auto status =
        nlohmann::json::parse(box_.Run({"status", job, "-o", "json"}).out(), nullptr, false);
    return status.is_discarded() ? nlohmann::json() : status["ranks"][0]["log"];
  }
  // All that was written is either there or counted.
  void ExpectAccounted(const std::string& job) {
    const std::string all = SeededString(1, 8'000'000);
    EXPECT_TRUE(WaitUntil([&] {
      const nlohmann::json log = LogAccount(job);
      return log.is_object() &&
             log["stored_bytes"].get<uint64_t>() >=
                 log["written_bytes"].get<uint64_t>() - log["dropped_bytes"].get<uint64_t>();
    }));
    CommandRun follow = box_.Run({"logs", job, "-f", "--raw"});
    EXPECT_EQ(follow.Wait(), 0) << follow.err();
    const nlohmann::json account = LogAccount(job);
    EXPECT_EQ(account["written_bytes"], all.size());
    EXPECT_EQ(follow.out().size() + account["dropped_bytes"].get<uint64_t>(), all.size())
        << follow.err();
  }

  Cluster cluster_;
  testing::Sandbox& box_;
};

TEST_F(SmallDiskTest, OfAnAgentLosesNoExitStatus) {
  const SmallDisk disk(box_.Path("node-1"));
  if (!disk.mounted()) GTEST_SKIP() << "a small file system can only be mounted as root";
  cluster_.Start();
  const std::string job = cluster_.Submit();
  EXPECT_EQ(cluster_.WaitJob(job), 7);
  ExpectAccounted(job);

  disk.Grow();
  const std::string again = cluster_.Submit();
  EXPECT_EQ(cluster_.WaitJob(again), 7);
  ExpectAccounted(again);
  EXPECT_EQ(LogAccount(again)["dropped_bytes"], 0);
}

TEST_F(SmallDiskTest, OfAnAgentThatIsFullRefusesTheJob) {
  const SmallDisk disk(box_.Path("node-1"));
  if (!disk.mounted()) GTEST_SKIP() << "a small file system can only be mounted as root";
  cluster_.Start();
  disk.Fill();
  CommandRun refused = box_.Run({"submit", "short.yaml"});
  EXPECT_EQ(refused.Wait(), 120) << refused.err();
  EXPECT_THAT(refused.err(), HasSubstr("No space left on device"));
  EXPECT_THAT(refused.err(), HasSubstr("node-1"));
  disk.Clear();
  EXPECT_EQ(cluster_.WaitJob(cluster_.Submit("short.yaml")), 5);
}

TEST_F(SmallDiskTest, OfTheCoordinatorLeavesOutputOnTheNodeUntilThereIsRoom) {
  const SmallDisk disk(box_.Path("state"));
  if (!disk.mounted()) GTEST_SKIP() << "a small file system can only be mounted as root";
  cluster_.Start();
  const std::string job = cluster_.Submit();
  ASSERT_TRUE(box_.WaitFor("written")) << "a rank must not stand still for the coordinator's disk";
  const auto says = [this](const char* text) {
    return WaitUntil([&] { return cluster_.coordinator().err().find(text) != std::string::npos; });
  };
  EXPECT_TRUE(says("the job goes on, its output waits on the nodes"));
  CommandRun refused = box_.Run({"submit", "short.yaml"});
  EXPECT_EQ(refused.Wait(), 120) << refused.err();
  EXPECT_THAT(refused.err(), HasSubstr("cannot store jobs at present"));
  EXPECT_THAT(refused.err(), HasSubstr("disk is full"));
  // By this at the latest: what became of the job may have been stored just before.
  EXPECT_TRUE(says("store write failed"));

  disk.Grow();
  EXPECT_EQ(cluster_.WaitJob(job), 7);
  ExpectAccounted(job);
  EXPECT_EQ(LogAccount(job)["dropped_bytes"], 0);
  EXPECT_EQ(cluster_.WaitJob(cluster_.Submit("short.yaml")), 5);
}

TEST_F(SmallDiskTest, ThatIsFullIsTheReasonWhyACoordinatorDoesNotStart) {
  const SmallDisk disk(box_.Path("state"));
  if (!disk.mounted()) GTEST_SKIP() << "a small file system can only be mounted as root";
  cluster_.Start();
  cluster_.KillCoordinator();
  disk.Fill();
  CommandRun again = box_.Run({"serve", "--state-dir", "state", "--socket", cluster_.socket()});
  EXPECT_NE(again.Wait(), 0);
  EXPECT_THAT(again.err(),
              ::testing::AnyOf(HasSubstr("No space left on device"), HasSubstr("disk is full")));
  disk.Clear();
  cluster_.StartCoordinator();
  EXPECT_EQ(cluster_.WaitJob(cluster_.Submit("short.yaml")), 5);
}

}  // namespace
}  // namespace muster
