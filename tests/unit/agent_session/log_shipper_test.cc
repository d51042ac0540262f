#include "agent/session/log_shipper.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/testing/sim_executor.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::SimExecutor;
using testing::SimQueue;

const AttemptId kAttempt{JobId("j1"), 1};

LogFileId File(uint32_t rank) { return {kAttempt, rank}; }

// Files in memory.
struct MemorySpool final : SpoolReader {
  absl::StatusOr<Extent> Stat(const LogFileId& file) override {
    if (broken) return absl::DataLossError("the disk is gone");
    const auto it = fixed.find(file);
    return Extent{begin[file], files[file].size(), it == fixed.end() ? UINT64_MAX : it->second};
  }
  absl::StatusOr<std::string> Read(const LogFileId& file, uint64_t offset,
                                   uint64_t max_bytes) override {
    if (broken) return absl::DataLossError("the disk is gone");
    return files[file].substr(offset, max_bytes);
  }
  Run RunAt(const LogFileId& file, uint64_t offset) override {
    const auto hole = holes.find(file);
    if (hole == holes.end() || offset >= hole->second.second) return {};
    if (offset < hole->second.first) return {.bytes = hole->second.first - offset};
    return {.zeros = true, .bytes = hole->second.second - offset};
  }
  void Forget(const AttemptId& attempt) override { forgotten.push_back(attempt); }

  std::map<LogFileId, std::string> files;
  std::map<LogFileId, uint64_t> begin;
  // From, to.
  std::map<LogFileId, std::pair<uint64_t, uint64_t>> holes;
  std::map<LogFileId, uint64_t> fixed;
  std::vector<AttemptId> forgotten;
  bool broken = false;
};

struct Sink final : LogSink {
  void Send(v1::UploadLogsRequest request) override { sent.push_back(std::move(request)); }
  void Close(absl::Status status) override { closed = status; }
  std::vector<v1::UploadLogsRequest> sent;
  std::optional<absl::Status> closed;
};

class LogShipperTest : public ::testing::Test {
 protected:
  LogShipperTest()
      : shipper_(executor_, NodeId("node-1"), spool_,
                 {.committed =
                      [this](const LogFileId& file, uint64_t bytes) {
                        notes_.push_back(fmt::format("committed {} {}", file.rank, bytes));
                      },
                  .complete =
                      [this](const LogFileId& file) {
                        notes_.push_back(fmt::format("complete {}", file.rank));
                      },
                  .failed =
                      [this](const LogFileId& file, const absl::Status& status) {
                        notes_.push_back(fmt::format("failed {}", file.rank));
                        last_failure_ = status;
                      },
                  .unreadable =
                      [this](const LogFileId& file, const absl::Status&) {
                        notes_.push_back(fmt::format("unreadable {}", file.rank));
                      },
                  .work = [this](bool work) { work_ = work; }}) {
    shipper_.OnSession("s1");
  }

  void Connect() {
    sink_ = std::make_unique<Sink>();
    shipper_.OnConnected(sink_.get());
    queue_.RunReady();
  }
  void Committed(uint32_t rank, uint64_t bytes) {
    v1::UploadLogsResponse response;
    v1::CommittedLog& committed = *response.add_committed();
    committed.mutable_file()->mutable_key()->set_job_id("j1");
    committed.mutable_file()->mutable_key()->set_attempt(1);
    committed.mutable_file()->set_rank(rank);
    committed.set_committed_size(bytes);
    shipper_.OnMessage(response);
    queue_.RunReady();
  }
  void Write(uint32_t rank, const std::string& bytes) {
    spool_.files[File(rank)] += bytes;
    shipper_.OnSpoolGrew(File(rank));
    queue_.RunReady();
  }
  // "rank@offset+length" of every chunk since the last call.
  std::vector<std::string> TakeChunks() {
    std::vector<std::string> chunks;
    for (const v1::UploadLogsRequest& request : sink_->sent) {
      if (!request.has_chunk()) continue;
      const v1::LogChunk& chunk = request.chunk();
      EXPECT_EQ(chunk.data(), spool_.files[File(chunk.file().rank())].substr(chunk.offset(),
                                                                             chunk.data().size()));
      chunks.push_back(
          fmt::format("{}@{}+{}", chunk.file().rank(), chunk.offset(), chunk.data().size()));
      if (chunk.zeros() > 0) chunks.back() += fmt::format(" zeros {}", chunk.zeros());
    }
    sink_->sent.clear();
    return chunks;
  }
  std::vector<std::string> TakeNotes() { return std::exchange(notes_, {}); }

  SimQueue queue_;
  SimExecutor executor_{queue_};
  MemorySpool spool_;
  std::vector<std::string> notes_;
  bool work_ = false;
  absl::Status last_failure_;
  std::unique_ptr<Sink> sink_;
  LogShipper shipper_;
};

TEST_F(LogShipperTest, TellsHolesWithoutSendingTheirZeros) {
  constexpr uint64_t kHole = 20 << 20;
  spool_.files[File(0)] = std::string(1000, 'x') + std::string(kHole, '\0') + "end";
  spool_.holes[File(0)] = {1000, 1000 + kHole};
  shipper_.AddFiles(kAttempt, {0});
  Connect();
  Committed(0, 0);
  // As much as may be on its way; the rest when that has arrived.
  EXPECT_THAT(TakeChunks(), ElementsAre("0@0+1000", "0@1000+0 zeros 8387608"));
  Committed(0, 8 << 20);
  EXPECT_THAT(TakeChunks(), ElementsAre("0@8388608+0 zeros 8388608"));
  Committed(0, 16 << 20);
  EXPECT_THAT(TakeChunks(), ElementsAre("0@16777216+0 zeros 4195304"));
  Committed(0, 1000 + kHole);
  EXPECT_THAT(TakeChunks(), ElementsAre("0@20972520+3"));
}

TEST_F(LogShipperTest, AFewZerosAreSentAsTheyAre) {
  spool_.files[File(0)] = std::string(100, '\0') + "end";
  spool_.holes[File(0)] = {0, 100};
  shipper_.AddFiles(kAttempt, {0});
  Connect();
  Committed(0, 0);
  EXPECT_THAT(TakeChunks(), ElementsAre("0@0+103"));
}

TEST_F(LogShipperTest, ShipsAFileFromWhereTheCoordinatorIs) {
  spool_.files[File(0)] = "0123456789";
  shipper_.AddFiles(kAttempt, {0});
  Connect();
  ASSERT_EQ(sink_->sent.size(), 1u);
  const v1::LogHello& hello = sink_->sent[0].hello();
  EXPECT_EQ(hello.node_id(), "node-1");
  EXPECT_EQ(hello.session_id(), "s1");
  ASSERT_EQ(hello.files_size(), 1);
  EXPECT_EQ(hello.files(0).key().job_id(), "j1");
  queue_.RunFor(seconds(2));
  EXPECT_THAT(TakeChunks(), IsEmpty()) << "not before the committed size is known";
  Committed(0, 4);
  EXPECT_THAT(TakeChunks(), ElementsAre("0@4+6"));
  EXPECT_EQ(shipper_.pending_bytes(), 6u);
  Committed(0, 10);
  EXPECT_EQ(shipper_.pending_bytes(), 0u);
  EXPECT_THAT(TakeNotes(), ElementsAre("committed 0 4", "committed 0 10"));
}

TEST_F(LogShipperTest, AnnouncesFilesThatComeLater) {
  Connect();
  sink_->sent.clear();
  shipper_.AddFiles(kAttempt, {0, 1});
  shipper_.AddFiles(kAttempt, {0, 1});
  shipper_.AddFiles(kAttempt, {1, 2});
  ASSERT_EQ(sink_->sent.size(), 2u) << "one message for all that are new, none for none";
  ASSERT_EQ(sink_->sent[0].open().files_size(), 2);
  EXPECT_EQ(sink_->sent[0].open().files(1).rank(), 1u);
  ASSERT_EQ(sink_->sent[1].open().files_size(), 1);
  EXPECT_EQ(sink_->sent[1].open().files(0).rank(), 2u);
  Committed(1, 0);
  Write(1, "abc");
  EXPECT_THAT(TakeChunks(), ElementsAre("1@0+3"));
}

TEST_F(LogShipperTest, CollectsALittleOutputWhileSomethingIsUnderWay) {
  shipper_.AddFiles(kAttempt, {0});
  Connect();
  Committed(0, 0);
  Write(0, "first");
  EXPECT_THAT(TakeChunks(), ElementsAre("0@0+5")) << "the first goes at once";
  Write(0, "a");
  Write(0, "b");
  EXPECT_THAT(TakeChunks(), IsEmpty());
  queue_.RunFor(milliseconds(25));
  EXPECT_THAT(TakeChunks(), ElementsAre("0@5+2")) << "but never waits for long";
  Write(0, "c");
  Committed(0, 7);
  EXPECT_THAT(TakeChunks(), ElementsAre("0@7+1")) << "nor once everything arrived";
  Write(0, std::string(LogShipper::kFlushBytes, 'x'));
  EXPECT_THAT(TakeChunks(), ElementsAre("0@8+65536")) << "nor when there is much";
}

TEST_F(LogShipperTest, ReadsNothingThatMayChange) {
  spool_.fixed[File(0)] = 0;
  spool_.files[File(0)] = "0123456789";
  shipper_.AddFiles(kAttempt, {0});
  Connect();
  // An agent before this one has sent that much.
  Committed(0, 2);
  EXPECT_THAT(TakeChunks(), IsEmpty());
  spool_.fixed[File(0)] = 6;
  shipper_.OnSpoolGrew(File(0));
  queue_.RunReady();
  EXPECT_THAT(TakeChunks(), ElementsAre("0@2+4"));
  Write(0, "abc");
  Committed(0, 6);
  EXPECT_THAT(TakeChunks(), IsEmpty());
  EXPECT_EQ(shipper_.pending_bytes(), 7u);
  // A closed file never changes.
  shipper_.OnClosed(File(0), 13);
  queue_.RunReady();
  EXPECT_THAT(TakeChunks(), ElementsAre("0@6+7"));
}

TEST_F(LogShipperTest, SharesTheWindowBetweenFiles) {
  for (const uint32_t rank : {0, 1, 2}) spool_.files[File(rank)] = std::string(9 << 20, 'x');
  shipper_.AddFiles(kAttempt, {0, 1, 2});
  Connect();
  // Ready one after the other, so that the first cannot take the whole window before.
  v1::UploadLogsResponse response;
  for (const uint32_t rank : {0, 1, 2}) {
    v1::CommittedLog& committed = *response.add_committed();
    committed.mutable_file()->mutable_key()->set_job_id("j1");
    committed.mutable_file()->mutable_key()->set_attempt(1);
    committed.mutable_file()->set_rank(rank);
  }
  shipper_.OnMessage(response);
  queue_.RunReady();
  std::map<uint32_t, uint64_t> sent;
  uint64_t total = 0;
  for (const v1::UploadLogsRequest& request : sink_->sent) {
    if (!request.has_chunk()) continue;
    EXPECT_LE(request.chunk().data().size(), LogShipper::kMaxChunkBytes);
    EXPECT_EQ(request.chunk().offset(), sent[request.chunk().file().rank()]);
    sent[request.chunk().file().rank()] += request.chunk().data().size();
    total += request.chunk().data().size();
  }
  EXPECT_EQ(total, LogShipper::kWindowBytes);
  for (const uint32_t rank : {0, 1, 2}) EXPECT_GE(sent[rank], total / 3 - 256 * 1024);
  sink_->sent.clear();
  Committed(1, 256 * 1024);
  EXPECT_EQ(TakeChunks().size(), 1u) << "as much again as was committed";
}

TEST_F(LogShipperTest, SendsAgainWhatAConnectionLost) {
  spool_.files[File(0)] = std::string(1000, 'x');
  shipper_.AddFiles(kAttempt, {0});
  Connect();
  Committed(0, 0);
  EXPECT_THAT(TakeChunks(), ElementsAre("0@0+1000"));
  shipper_.OnDisconnected();
  Write(0, "more");
  Connect();
  Committed(0, 600);
  EXPECT_THAT(TakeChunks(), ElementsAre("0@600+404"));
}

TEST_F(LogShipperTest, FindsGrowthThatNobodyTold) {
  shipper_.AddFiles(kAttempt, {0});
  Connect();
  Committed(0, 0);
  spool_.files[File(0)] = "quiet";
  queue_.RunFor(milliseconds(1100));
  EXPECT_THAT(TakeChunks(), ElementsAre("0@0+5"));
}

TEST_F(LogShipperTest, KnowsWhenAClosedFileIsStored) {
  shipper_.AddFiles(kAttempt, {0, 1});
  Connect();
  Committed(0, 0);
  Committed(1, 0);
  Write(0, "all of it");
  shipper_.OnClosed(File(0), 9);
  EXPECT_FALSE(shipper_.Complete(File(0)));
  Committed(0, 9);
  EXPECT_TRUE(shipper_.Complete(File(0)));
  EXPECT_THAT(TakeNotes(), ElementsAre("committed 0 9", "complete 0"));
  shipper_.OnClosed(File(1), 0);
  EXPECT_THAT(TakeNotes(), ElementsAre("complete 1")) << "an empty file is complete at once";
  Committed(0, 9);
  EXPECT_THAT(TakeNotes(), IsEmpty());
}

TEST_F(LogShipperTest, AFileThatIsEmptyAndClosedIsCompleteOnlyWhenTheCoordinatorWasAsked) {
  shipper_.AddFiles(kAttempt, {0});
  shipper_.OnClosed(File(0), 5);
  EXPECT_FALSE(shipper_.Complete(File(0)));
}

TEST_F(LogShipperTest, RefusesACommittedSizeThatWentBack) {
  spool_.files[File(0)] = std::string(100, 'x');
  shipper_.AddFiles(kAttempt, {0, 1});
  Connect();
  Committed(1, 0);
  Committed(0, 50);
  Committed(0, 40);
  ASSERT_TRUE(sink_->closed.has_value());
  EXPECT_EQ(sink_->closed->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(TakeNotes(), ElementsAre("committed 0 50", "failed 0"));
  // The other file goes on with the next connection, without the one that failed.
  Connect();
  ASSERT_EQ(sink_->sent[0].hello().files_size(), 1);
  EXPECT_EQ(sink_->sent[0].hello().files(0).rank(), 1u);
  Committed(1, 0);
  Write(1, "on");
  Write(0, "off");
  EXPECT_THAT(TakeChunks(), ElementsAre("1@0+2"));
}

TEST_F(LogShipperTest, RefusesACommittedSizeThatWentBackOverConnections) {
  spool_.files[File(0)] = std::string(100, 'x');
  shipper_.AddFiles(kAttempt, {0});
  Connect();
  Committed(0, 50);
  shipper_.OnDisconnected();
  Connect();
  Committed(0, 49);
  EXPECT_TRUE(sink_->closed.has_value());
}

TEST_F(LogShipperTest, RefusesACommittedSizeBeyondTheFileOrBeyondWhatWasSent) {
  spool_.files[File(0)] = std::string(100, 'x');
  shipper_.AddFiles(kAttempt, {0, 1});
  Connect();
  Committed(0, 101);
  EXPECT_TRUE(sink_->closed.has_value());
  Connect();
  Committed(1, 0);
  Committed(1, 1);
  EXPECT_TRUE(sink_->closed.has_value());
  EXPECT_THAT(TakeNotes(), ElementsAre("failed 0", "failed 1"));
}

TEST_F(LogShipperTest, RefusesACommittedSizeBeforeWhatIsStillHeld) {
  spool_.files[File(0)] = std::string(100, 'x');
  spool_.begin[File(0)] = 60;
  shipper_.AddFiles(kAttempt, {0});
  Connect();
  Committed(0, 59);
  EXPECT_TRUE(sink_->closed.has_value());
}

TEST_F(LogShipperTest, TriesAFileAgainThatCannotBeReadAtPresent) {
  shipper_.AddFiles(kAttempt, {0, 1});
  Connect();
  Committed(0, 0);
  Committed(1, 0);
  spool_.broken = true;
  Write(0, "x");
  queue_.RunFor(milliseconds(3000));
  EXPECT_THAT(TakeNotes(), ElementsAre("unreadable 0", "unreadable 1")) << "told once";
  EXPECT_FALSE(sink_->closed.has_value());
  spool_.broken = false;
  queue_.RunFor(milliseconds(1100));
  EXPECT_THAT(TakeChunks(), ElementsAre("0@0+1"));
}

TEST_F(LogShipperTest, ComparesACommittedSizeOnceTheFileCanBeRead) {
  spool_.files[File(0)] = "0123456789";
  shipper_.AddFiles(kAttempt, {0});
  spool_.broken = true;
  Connect();
  Committed(0, 4);
  EXPECT_THAT(TakeNotes(), ElementsAre("unreadable 0"));
  spool_.broken = false;
  queue_.RunFor(milliseconds(1100));
  EXPECT_THAT(TakeChunks(), ElementsAre("0@4+6"));
  EXPECT_THAT(TakeNotes(), ElementsAre("committed 0 4"));
}

TEST_F(LogShipperTest, LeavesOutAFileThatBecameShorter) {
  spool_.files[File(0)] = "0123456789";
  shipper_.AddFiles(kAttempt, {0});
  Connect();
  Committed(0, 0);
  spool_.files[File(0)] = "01";
  shipper_.OnSpoolGrew(File(0));
  EXPECT_THAT(TakeNotes(), ElementsAre("failed 0"));
  EXPECT_EQ(last_failure_.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(sink_->closed.has_value());
}

TEST_F(LogShipperTest, ForgetsAReleasedAttempt) {
  spool_.files[File(0)] = std::string(100, 'x');
  shipper_.AddFiles(kAttempt, {0});
  Connect();
  Committed(0, 0);
  shipper_.RemoveAttempt(kAttempt);
  EXPECT_THAT(spool_.forgotten, ElementsAre(kAttempt));
  Committed(0, 100);
  EXPECT_FALSE(sink_->closed.has_value()) << "a late answer about it";
  EXPECT_EQ(shipper_.pending_bytes(), 0u);
  const AttemptId other{JobId("j2"), 1};
  shipper_.AddFiles(other, {0});
  spool_.files[{other, 0}] = std::string(9 << 20, 'y');
  v1::UploadLogsResponse response;
  response.add_committed()->mutable_file()->mutable_key()->set_job_id("j2");
  response.mutable_committed(0)->mutable_file()->mutable_key()->set_attempt(1);
  sink_->sent.clear();
  shipper_.OnMessage(response);
  queue_.RunReady();
  EXPECT_EQ(sink_->sent.size(), LogShipper::kWindowBytes / LogShipper::kMaxChunkBytes)
      << "the whole window is free again";
}

TEST_F(LogShipperTest, HasWorkUntilWhatItHasIsCommitted) {
  EXPECT_FALSE(work_) << "nothing to ship";
  shipper_.AddFiles(kAttempt, {0, 1});
  EXPECT_TRUE(work_) << "output is about to come";
  Connect();
  Committed(0, 0);
  EXPECT_TRUE(work_) << "of the other the coordinator has said nothing yet";
  Committed(1, 0);
  EXPECT_FALSE(work_);
  Write(0, "abc");
  EXPECT_TRUE(work_);
  Committed(0, 2);
  shipper_.OnDisconnected();
  EXPECT_TRUE(work_);
  Connect();
  Committed(0, 3);
  EXPECT_FALSE(work_);
}

TEST_F(LogShipperTest, HasWorkUntilAClosedFileIsComplete) {
  shipper_.AddFiles(kAttempt, {0});
  Connect();
  Committed(0, 0);
  shipper_.OnDisconnected();
  shipper_.OnClosed(File(0), 3);
  EXPECT_TRUE(work_) << "its bytes were not seen yet";
  Write(0, "abc");
  Connect();
  Committed(0, 0);
  Committed(0, 3);
  EXPECT_FALSE(work_);
  EXPECT_TRUE(shipper_.Complete(File(0)));
}

TEST_F(LogShipperTest, FindsWorkThatNobodyToldWithoutAConnection) {
  shipper_.AddFiles(kAttempt, {0});
  Connect();
  Committed(0, 0);
  shipper_.OnDisconnected();
  spool_.files[File(0)] = "abc";
  queue_.RunFor(LogShipper::kPollInterval);
  EXPECT_TRUE(work_);
}

TEST_F(LogShipperTest, ComparesEveryFileAgainInANewSession) {
  shipper_.AddFiles(kAttempt, {0});
  Connect();
  Committed(0, 0);
  EXPECT_FALSE(work_);
  shipper_.OnSessionLost();
  shipper_.OnSession("s2");
  EXPECT_TRUE(work_) << "its coordinator may be another one, and has to know the sizes";
  Connect();
  EXPECT_EQ(sink_->sent[0].hello().session_id(), "s2");
  Committed(0, 0);
  EXPECT_FALSE(work_);
}

TEST_F(LogShipperTest, FilesThatAreLeftOutOrForgottenAreNoWork) {
  spool_.files[File(0)] = std::string(100, 'x');
  shipper_.AddFiles(kAttempt, {0, 1});
  Connect();
  Committed(1, 0);
  Committed(0, 101);
  EXPECT_FALSE(work_) << "file 0 failed";
  Write(1, "abc");
  EXPECT_TRUE(work_);
  shipper_.RemoveAttempt(kAttempt);
  EXPECT_FALSE(work_);
}

}  // namespace
}  // namespace muster
