// The agent's log connection over mutual TLS against a whole coordinator: there only while there is
// output, and nothing lost by its coming and going.
#include "agent/rpc/log_client.h"

#include <gmock/gmock.h>
#include <poll.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "common/io/event_loop.h"
#include "tests/contract/network/network_fixture.h"
#include "tests/testing/relay/relay.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// One frame file in memory. Of the loop thread.
struct MemorySpool final : SpoolReader {
  absl::StatusOr<Extent> Stat(const LogFileId&) override { return Extent{0, bytes.size()}; }
  absl::StatusOr<std::string> Read(const LogFileId&, uint64_t offset, uint64_t most) override {
    return bytes.substr(offset, most);
  }
  void Forget(const AttemptId&) override {}
  std::string bytes;
};

// The part of an agent that ships output, on a loop of its own.
class Shipping {
 public:
  Shipping(Dialer dialer, Duration idle)
      : shipper_(loop_, NodeId("node-1"), spool_,
                 {.committed = [this](const LogFileId&,
                                      uint64_t bytes) { Set([&] { committed_ = bytes; }); },
                  .complete = [this](const LogFileId&) { Set([&] { complete_ = true; }); },
                  .failed = [](const LogFileId&,
                               const absl::Status& status) { ADD_FAILURE() << status; },
                  .work =
                      [this](bool work) {
                        Set([&] { work_ = work; });
                        client_->OnWork(work);
                      }}),
        client_(std::make_unique<LogClient>(loop_, std::move(dialer), 1, shipper_, idle)),
        thread_([this] { loop_.Run(); }) {}
  ~Shipping() {
    loop_.Stop();
    thread_.join();
    client_.reset();
  }

  // Runs it on the loop and waits for its end.
  void Do(const std::function<void()>& task, Duration delay = Duration(0)) {
    std::promise<void> done;
    const auto run = [&] {
      task();
      done.set_value();
    };
    loop_.Post([&] { loop_.PostAfter(delay, run); });
    done.get_future().wait();
  }
  void OpenSession(const std::string& id) {
    Do([&] { client_->OnSession(id); });
  }
  void LoseSession() {
    Do([&] { client_->OnSessionLost(); });
  }
  void Start(const LogFileId& file) {
    file_ = file;
    Do([&] { shipper_.AddFiles(file.attempt, {file.rank}); });
  }
  // Writes a line after a while; returns the size of the file then.
  uint64_t Write(const std::string& line, Duration delay = Duration(0)) {
    uint64_t size = 0;
    Do(
        [&] {
          spool_.bytes += FrameFile({line});
          size = spool_.bytes.size();
          shipper_.OnSpoolGrew(file_);
        },
        delay);
    return size;
  }
  void CloseFile() {
    Do([&] { shipper_.OnClosed(file_, spool_.bytes.size()); });
  }
  std::string written() {
    std::string bytes;
    Do([&] { bytes = spool_.bytes; });
    return bytes;
  }
  bool AwaitCommitted(uint64_t bytes) {
    return Await([&] { return committed_ == bytes; });
  }
  // Everything is told and answered.
  bool AwaitNoWork() {
    return Await([&] { return !work_; });
  }
  bool AwaitComplete() {
    return Await([&] { return complete_; });
  }

 private:
  void Set(const std::function<void()>& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  bool Await(const std::function<bool()>& done) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(20), done);
  }

  EventLoop loop_;
  MemorySpool spool_;
  LogFileId file_;
  LogShipper shipper_;
  std::unique_ptr<LogClient> client_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t committed_ = 0;
  bool work_ = false;
  bool complete_ = false;
  std::thread thread_;
};

class LogClientTest : public NetworkTest {
 protected:
  void SetUp() override {
    NetworkTest::SetUp();
    relay_ = std::make_unique<testing::Relay>("127.0.0.1:0", address_);
    agents_.push_back(
        std::make_unique<TestAgent>(Dial(Made(Of(IdentityKind::kAgent, "node-1"))), "node-1"));
    agent_ = agents_.back().get();
    agent_->Join();
    job_ = Submit({"node-1"}, 1).job_id();
    key_ = agent_->RunRanks(1);
    file_ = {{JobId(key_.job_id()), key_.attempt()}, 0};
  }
  void TearDown() override {
    relay_.reset();
    NetworkTest::TearDown();
  }

  // Over the relay, which counts the connections.
  Dialer OverRelay() {
    return [this,
            credentials = std::make_shared<Credentials>(Made(Of(IdentityKind::kAgent, "node-1")))](
               ChannelUse use) { return MakeMemberChannel(*credentials, relay_->address(), use); };
  }
  bool AwaitConnections(uint64_t open) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(20);
    while (relay_->counts().open != open) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      ::poll(nullptr, 0, 2);
    }
    return true;
  }
  void EndJob(uint64_t log_size) {
    agent_->ExitRank(key_, 0);
    agent_->CloseLog(key_, 0, log_size);
    agent_->StopAttempt(key_);
    EXPECT_EQ(AwaitEnd(job_), v1::Job::SUCCEEDED);
  }
  uint64_t accepted() const { return relay_->counts().accepted; }
  // As an admin reads it over the network.
  std::string Stored() {
    const auto jobs = v1::JobService::NewStub(Dial(Made(Of(IdentityKind::kAdmin, "root"))));
    v1::ReadLogsRequest request;
    request.set_job_id(job_);
    const auto context = MakeContext();
    const auto stream = jobs->ReadLogs(context.get(), request);
    std::string text;
    v1::ReadLogsResponse response;
    while (stream->Read(&response)) text += response.data();
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return text;
  }

  std::unique_ptr<testing::Relay> relay_;
  TestAgent* agent_ = nullptr;
  std::string job_;
  v1::AttemptKey key_;
  LogFileId file_;
};

TEST_F(LogClientTest, ConnectsForOutputOnlyAndHangsUpAfterwards) {
  Shipping shipping(OverRelay(), milliseconds(50));
  shipping.OpenSession(agent_->session_id());
  EXPECT_EQ(accepted(), 0u) << "there is nothing to ship";
  shipping.Start(file_);
  ASSERT_TRUE(shipping.AwaitNoWork()) << "asked before there is output";
  EXPECT_EQ(accepted(), 1u);
  ASSERT_TRUE(AwaitConnections(0));
  const uint64_t size = shipping.Write("first");
  ASSERT_TRUE(shipping.AwaitCommitted(size));
  EXPECT_EQ(accepted(), 2u);
  ASSERT_TRUE(AwaitConnections(0));
  shipping.CloseFile();
  EXPECT_TRUE(shipping.AwaitComplete());
  // What a new session says, it is asked again, in case its coordinator is another one.
  shipping.LoseSession();
  shipping.OpenSession(agent_->session_id());
  ASSERT_TRUE(AwaitConnections(1));
  ASSERT_TRUE(AwaitConnections(0));
  EXPECT_EQ(accepted(), 3u);
}

TEST_F(LogClientTest, PassesMoreThanFitsIntoAnyBuffer) {
  Shipping shipping(OverRelay(), LogConnection::kIdle);
  shipping.OpenSession(agent_->session_id());
  shipping.Start(file_);
  uint64_t size = 0;
  for (int i = 0; i < 64; ++i)
    size = shipping.Write(std::string(200'000 + i, static_cast<char>('0' + i)));
  ASSERT_TRUE(shipping.AwaitCommitted(size));
  EndJob(size);
  EXPECT_TRUE(Stored() == shipping.written());
}

TEST_F(LogClientTest, LosesNothingThatIsWrittenWhileItHangsUp) {
  Shipping shipping(OverRelay(), milliseconds(1));
  shipping.OpenSession(agent_->session_id());
  shipping.Start(file_);
  ASSERT_TRUE(shipping.AwaitNoWork());
  uint64_t size = 0;
  for (int i = 0; i < 200; ++i) {
    // Shortly before, with, or shortly after the end of the connection.
    size = shipping.Write(fmt::format("line {}", i), std::chrono::microseconds(i * 10));
    ASSERT_TRUE(shipping.AwaitCommitted(size)) << i;
    if (i % 50 == 49) {
      shipping.LoseSession();
      shipping.OpenSession(agent_->session_id());
    }
  }
  EXPECT_GT(accepted(), 20u);
  shipping.CloseFile();
  EXPECT_TRUE(shipping.AwaitComplete());
  EXPECT_TRUE(AwaitConnections(0));
  EndJob(size);
  EXPECT_EQ(Stored(), shipping.written());
}

}  // namespace
}  // namespace muster
