// Agents come and go, shims die, several want the same slots: nothing is lost, nothing is left,
// nothing is given out twice.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "common/io/record_log.h"
#include "tests/process/shim/shim_client.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

class ShimRecovery : public ::testing::Test {
 protected:
  std::string File(const std::string& name) const { return folder_.path() + "/" + name; }

  // True when nobody holds the lock of the attempt.
  static bool LockIsFree(const ShimClient& shim) {
    const UniqueFd fd(::open((shim.directory() + "/lock").c_str(), O_RDWR | O_CLOEXEC));
    return fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
  }

  static std::vector<internal::ShimRecord> RecordsOnDisk(const ShimClient& shim) {
    std::vector<internal::ShimRecord> records;
    RecordLogEnd end;
    EXPECT_FALSE(ReadRecordLog(shim.directory() + "/events.rec", end, [&](std::string_view bytes) {
      internal::ShimRecord record;
      EXPECT_TRUE(record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
      records.push_back(record);
      return true;
    }));
    EXPECT_EQ(end.torn_bytes, 0u);
    return records;
  }

  AttemptFolder folder_;
  std::string leases_ = folder_.path() + "/leases";
  ShimClient shim_{folder_.path(), "a", leases_};
};

TEST_F(ShimRecovery, AReconnectReplaysFromTheIndexAskedFor) {
  shim_.AddProbe({"--wait-file", File("go")});
  shim_.AddProbe({"--exit", "3"});
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  ASSERT_NE(shim_.WaitExited(1), nullptr);
  ASSERT_NE(shim_.WaitLogClosed(1), nullptr);
  const uint64_t seen = shim_.records().back().index();
  shim_.Disconnect();
  std::ofstream(File("go")).put('x');
  // Everything happens while nobody listens.
  ASSERT_TRUE(Eventually([&] { return RecordsOnDisk(shim_).back().has_stopped(); }));
  ASSERT_TRUE(shim_.Connect(seen + 1));
  ASSERT_NE(shim_.WaitStopped(), nullptr);
  uint64_t index = 0;
  for (const internal::ShimRecord& record : shim_.records()) EXPECT_EQ(record.index(), ++index);

  // And all of it again, equal to what is on disk.
  ASSERT_TRUE(shim_.Connect(1));
  const size_t first = shim_.records().size();
  ASSERT_TRUE(Eventually([&] {
    shim_.ReceiveAll();
    return shim_.records().size() == first + index;
  }));
  const std::vector<internal::ShimRecord> on_disk = RecordsOnDisk(shim_);
  ASSERT_EQ(on_disk.size(), index);
  for (size_t i = 0; i < index; ++i) {
    EXPECT_EQ(shim_.records()[first + i].SerializeAsString(), on_disk[i].SerializeAsString());
  }
  shim_.Quit();
  EXPECT_EQ(shim_.WaitExit(), 0);
}

TEST_F(ShimRecovery, TheNewestAgentWinsAndAConnectionThatSaysNothingDisplacesNobody) {
  shim_.AddProbe({"--wait-file", File("go")});
  ASSERT_TRUE(shim_.StartAndPrepare());
  UniqueFd silent(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  (shim_.directory() + "/sock").copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::connect(silent.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  shim_.Run();
  ASSERT_NE(shim_.WaitStarted(0), nullptr);

  internal::ShimRequest request;
  request.mutable_attach()->set_next_index(1);
  const std::string packet = request.SerializeAsString();
  ASSERT_GT(::send(silent.get(), packet.data(), packet.size(), 0), 0);
  char byte = 0;
  ASSERT_GT(::recv(silent.get(), &byte, 1, 0), 0);
  // The first connection is closed now.
  EXPECT_EQ(shim_.WaitStopped(5), nullptr);
  std::ofstream(File("go")).put('x');
  ASSERT_TRUE(shim_.Connect(1));
  EXPECT_NE(shim_.WaitStopped(), nullptr);
}

TEST_F(ShimRecovery, AnAgentThatDoesNotReadDelaysNothing) {
  for (int i = 0; i < 32; ++i) shim_.AddProbe({"--exit", "0"});
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  // Asks for everything again and again and reads nothing: the socket is full long before.
  internal::ShimRequest request;
  request.mutable_attach()->set_next_index(1);
  for (int i = 0; i < 200; ++i) shim_.Send(request);
  ASSERT_TRUE(Eventually([&] { return RecordsOnDisk(shim_).back().has_stopped(); }));
  EXPECT_NE(shim_.WaitStopped(), nullptr);
}

TEST_F(ShimRecovery, AKilledShimTakesItsRanksAlongAndFreesItsLocks) {
  for (const char* number : {"0", "1"}) {
    shim_.AddProbe({"--ignore-term", "--touch-pid", File(std::string("pid.") + number),
                    "--sleep-ms", "60000"});
  }
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  ASSERT_TRUE(Eventually(
      [&] { return !ReadPids(File("pid.0")).empty() && !ReadPids(File("pid.1")).empty(); }));
  // Both are on disk from here on.
  ASSERT_NE(shim_.WaitStarted(0), nullptr);
  ASSERT_NE(shim_.WaitStarted(1), nullptr);
  const pid_t first = ReadPids(File("pid.0"))[0];
  const pid_t second = ReadPids(File("pid.1"))[0];
  EXPECT_FALSE(LockIsFree(shim_));
  ASSERT_EQ(::kill(shim_.pid(), SIGKILL), 0);
  EXPECT_EQ(shim_.WaitExit(), 128 + SIGKILL);
  EXPECT_TRUE(Eventually([&] { return !IsAlive(first) && !IsAlive(second); }, 5));
  EXPECT_TRUE(Eventually([&] { return LockIsFree(shim_); }));
  // What it knew is on disk, and nothing is made up.
  const std::vector<internal::ShimRecord> records = RecordsOnDisk(shim_);
  ASSERT_EQ(records.size(), 4u);
  EXPECT_TRUE(records[2].has_rank_started());
  EXPECT_TRUE(records[3].has_rank_started());
  ShimClient next(folder_.path(), "b", leases_);
  next.AddProbe({});
  EXPECT_TRUE(next.StartAndPrepare()) << next.Problems();
}

TEST_F(ShimRecovery, AShimKilledAtAnyMomentLeavesNoRankAndReadableRecords) {
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    ShimClient shim(folder_.path(), "round-" + std::to_string(round), leases_);
    const std::string mark = "MARK=" + shim.directory();
    for (int i = 0; i < 4; ++i) {
      shim.AddProbe({"--ignore-term", "--print", "x", "--sleep-ms", i < 2 ? "2" : "60000"})
          .add_env(mark);
    }
    ASSERT_TRUE(shim.StartAndPrepare()) << shim.Problems();
    shim.Run();
    (void)shim.WaitStarted(4, (random() % 8000) / 1e6);
    ASSERT_EQ(::kill(shim.pid(), SIGKILL), 0);
    ASSERT_EQ(shim.WaitExit(), 128 + SIGKILL);
    EXPECT_TRUE(Eventually([&] { return CountProcessesWith(mark) == 0; }, 5));
    // A child that was being started has the locks until it has run for the first time.
    EXPECT_TRUE(Eventually([&] { return LockIsFree(shim); }));
    // What was told is there, and nothing that did not happen.
    const std::vector<internal::ShimRecord> on_disk = RecordsOnDisk(shim);
    ASSERT_GE(on_disk.size(), shim.records().size());
    for (size_t i = 0; i < shim.records().size(); ++i) {
      EXPECT_EQ(shim.records()[i].SerializeAsString(), on_disk[i].SerializeAsString());
    }
    for (const internal::ShimRecord& record : on_disk) {
      if (record.has_rank_exited()) {
        EXPECT_LT(record.rank_exited().rank(), 2u);
      }
    }
  }
}

TEST_F(ShimRecovery, AnExitThatWasToldIsOnDisk) {
  shim_.AddProbe({"--exit", "5"});
  shim_.AddProbe({"--sleep-ms", "60000"});
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  ASSERT_NE(shim_.WaitExited(0), nullptr);
  ASSERT_EQ(::kill(shim_.pid(), SIGKILL), 0);
  (void)shim_.WaitExit();
  bool found = false;
  for (const internal::ShimRecord& record : RecordsOnDisk(shim_)) {
    found = found || (record.has_rank_exited() && record.rank_exited().value() == 5);
  }
  EXPECT_TRUE(found);
}

TEST_F(ShimRecovery, WorksInAFolderWithAVeryLongPath) {
  std::string name = "x";
  while (name.size() < 250) name += "/long folder ü";
  ShimClient shim(folder_.path(), name, leases_);
  shim.AddProbe({"--exit", "2"});
  ASSERT_TRUE(shim.RunToEnd());
  EXPECT_EQ(shim.WaitExited(0, 0)->value(), 2);
}

TEST_F(ShimRecovery, ASlotIsGivenOutOnce) {
  shim_.AddProbe({});
  shim_.AddProbe({});
  ASSERT_TRUE(shim_.StartAndPrepare());
  ShimClient second(folder_.path(), "b", leases_);
  second.AddProbe({}).set_slot(1);
  second.AddProbe({}).set_slot(2);
  second.bootstrap.set_slots(0, 1);
  second.bootstrap.set_slots(1, 2);
  EXPECT_FALSE(second.StartAndPrepare());
  EXPECT_THAT(second.Problems(),
              HasSubstr("slot-lease: slot 1 of node-1 is in use by tester, job a (pid " +
                        std::to_string(shim_.pid()) + ")"));
  // What it got is given back, though it still runs; another node's slot of that number is another
  // slot.
  ShimClient third(folder_.path(), "c", leases_);
  third.AddProbe({}).set_slot(2);
  third.bootstrap.set_slots(0, 2);
  EXPECT_TRUE(third.StartAndPrepare()) << third.Problems();
  ShimClient other(folder_.path(), "d", leases_);
  other.bootstrap.set_node_id("node/2");
  other.AddProbe({});
  EXPECT_TRUE(other.StartAndPrepare()) << other.Problems();
}

TEST_F(ShimRecovery, TwoAttemptsGetDifferentPorts) {
  shim_.AddProbe({});
  shim_.bootstrap.set_reserve_port(true);
  ASSERT_TRUE(shim_.StartAndPrepare());
  const auto port_of = [](ShimClient& shim) {
    return shim.WaitFor([](const auto& r) { return r.has_prepared(); }, 0)->prepared().port();
  };
  const uint32_t first = port_of(shim_);
  EXPECT_GE(first, 29500u);
  EXPECT_LE(first, 29999u);
  ShimClient second(folder_.path(), "b", leases_);
  second.bootstrap.set_node_id("node-2");
  second.bootstrap.set_reserve_port(true);
  second.AddProbe({});
  ASSERT_TRUE(second.StartAndPrepare()) << second.Problems();
  EXPECT_NE(port_of(second), first);
  ShimClient third(folder_.path(), "c", leases_);
  third.bootstrap.set_node_id("node-3");
  third.bootstrap.set_reserve_port(true);
  third.bootstrap.set_port(first);
  third.AddProbe({});
  EXPECT_FALSE(third.StartAndPrepare());
  EXPECT_THAT(third.Problems(),
              HasSubstr("port: port " + std::to_string(first) + " is in use by tester, job a"));
}

TEST_F(ShimRecovery, APortThatAProgramListensOnIsInUse) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  const uint32_t port = ntohs(address.sin_port);
  shim_.AddProbe({});
  shim_.bootstrap.set_reserve_port(true);
  shim_.bootstrap.set_port(port);
  EXPECT_FALSE(shim_.StartAndPrepare());
  EXPECT_THAT(shim_.Problems(), HasSubstr("port: port " + std::to_string(port) + " is in use"));
}

TEST_F(ShimRecovery, ALeaseDirectoryThatIsALinkIsRefused) {
  std::filesystem::create_directory(File("real"));
  std::filesystem::create_directory_symlink(File("real"), File("link"));
  shim_.bootstrap.set_lease_directory(File("link"));
  shim_.AddProbe({});
  EXPECT_FALSE(shim_.StartAndPrepare());
  EXPECT_THAT(shim_.Problems(), HasSubstr("lease-directory: "));
}

// Everybody may make files in the host's directory of leases.
TEST_F(ShimRecovery, ALeaseFileThatIsASecondNameOfAnotherIsLeftAlone) {
  std::filesystem::create_directory(File("leases"));
  std::ofstream(File("precious")) << "keep me";
  shim_.AddProbe({});
  const std::string lease =
      File("leases/slot.") + shim_.bootstrap.node_id() + "." + std::to_string(0);
  std::filesystem::create_hard_link(File("precious"), lease);
  shim_.bootstrap.set_lease_directory(File("leases"));
  // Anybody can make one, so it must not keep others from the slot either.
  EXPECT_TRUE(shim_.StartAndPrepare()) << shim_.Problems();
  ShimClient second(folder_.path(), "b", File("leases"));
  second.AddProbe({});
  EXPECT_FALSE(second.StartAndPrepare());
  EXPECT_THAT(second.Problems(), HasSubstr("slot 0 of "));
  std::string text;
  std::getline(std::ifstream(File("precious")), text);
  EXPECT_EQ(text, "keep me");
}

TEST_F(ShimRecovery, WhatIsNoFileKeepsRootFromNoLease) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root removes what others have made";
  std::filesystem::create_directory(File("leases"));
  const auto lease = [&](int slot) {
    return File("leases/slot.") + shim_.bootstrap.node_id() + "." + std::to_string(slot);
  };
  std::filesystem::create_symlink("/nonexistent/muster", lease(0));
  std::filesystem::create_directory(lease(1));
  std::filesystem::create_directory(lease(2));
  std::ofstream(lease(2) + "/full") << "x";
  ASSERT_EQ(::mkfifo(lease(3).c_str(), 0666), 0);
  for (int slot = 0; slot < 4; ++slot) shim_.AddProbe({});
  shim_.bootstrap.set_lease_directory(File("leases"));
  EXPECT_TRUE(shim_.StartAndPrepare()) << shim_.Problems();
  for (int slot = 0; slot < 4; ++slot) {
    EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(lease(slot))))
        << slot;
  }
}

// Who made it could otherwise take away the leases of others.
TEST_F(ShimRecovery, RootTakesOverADirectoryOfLeases) {
  if (::geteuid() != 0) GTEST_SKIP() << "it takes root to be two users";
  std::filesystem::create_directory(File("leases"));
  ASSERT_EQ(::chown(File("leases").c_str(), 65534, 65534), 0);
  shim_.AddProbe({});
  shim_.bootstrap.set_lease_directory(File("leases"));
  EXPECT_TRUE(shim_.StartAndPrepare()) << shim_.Problems();
  struct stat info = {};
  ASSERT_EQ(::stat(File("leases").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0u);
  EXPECT_EQ(info.st_mode & 07777, 01777u);
}

}  // namespace
}  // namespace muster::testing
