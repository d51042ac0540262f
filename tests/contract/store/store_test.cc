// What every Store must do, run on each of them.
#include <gmock/gmock.h>

#include "coordinator/store/memory_store.h"
#include "coordinator/store/sqlite_store.h"
#include "tests/contract/store/store_fixture.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Makes a store and, for those that outlive a process, makes it again on the same state.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Store& store() = 0;
  virtual void Restart() = 0;
};

class MemoryBackend final : public Backend {
 public:
  explicit MemoryBackend(EventLoop& loop) : store_(loop) {}
  Store& store() override { return store_; }
  void Restart() override {}  // there is nothing that outlives it

 private:
  MemoryStore store_;
};

template <SqliteStoreOptions::Policy policy>
class SqliteBackend final : public Backend {
 public:
  explicit SqliteBackend(EventLoop& loop) : loop_(loop) { Restart(); }
  Store& store() override { return *store_; }
  void Restart() override {
    store_.reset();
    auto opened =
        SqliteStore::Open({.path = folder_.path() + "/store.db", .policy = policy}, loop_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }

 private:
  EventLoop& loop_;
  ScratchFolder folder_;
  std::unique_ptr<SqliteStore> store_;
};

template <typename BackendType>
class StoreContract : public testing::Test {
 protected:
  Store& store() { return backend_.store(); }
  absl::Status Append(StoreBatch batch) { return AppendAndWait(loop_, store(), std::move(batch)); }
  StoredState Load() {
    absl::StatusOr<StoredState> state = store().Load();
    EXPECT_TRUE(state.ok()) << state.status();
    return state.value_or(StoredState{});
  }
  StoredState Reload() {
    backend_.Restart();
    return Load();
  }

  EventLoop loop_;
  BackendType backend_{loop_};
};

using Backends = testing::Types<MemoryBackend, SqliteBackend<SqliteStoreOptions::Policy::kStrict>,
                                SqliteBackend<SqliteStoreOptions::Policy::kBestEffort>>;
TYPED_TEST_SUITE(StoreContract, Backends);

TYPED_TEST(StoreContract, BeginsEmptyWithEpochOne) {
  const StoredState state = this->Load();
  EXPECT_EQ(state.epoch, 1u);
  EXPECT_THAT(state.events, IsEmpty());
  EXPECT_THAT(state.nodes, IsEmpty());
}

TYPED_TEST(StoreContract, RaisesTheEpochAtEveryLoad) {
  EXPECT_EQ(this->Load().epoch, 1u);
  EXPECT_EQ(this->Reload().epoch, 2u);
  EXPECT_EQ(this->Reload().epoch, 3u);
}

TYPED_TEST(StoreContract, ReturnsEventsInTheOrderOfAppending) {
  this->Load();
  EXPECT_TRUE(this->Append({.events = {MakeEvent("b", 1, "x"), MakeEvent("a", 1, "y")}}).ok());
  EXPECT_TRUE(this->Append({.events = {MakeEvent("b", 2, "z")}}).ok());
  EXPECT_THAT(Describe(this->Reload()), ElementsAre("b/1=x", "a/1=y", "b/2=z"));
}

TYPED_TEST(StoreContract, ReplacesTheRecordOfANode) {
  this->Load();
  EXPECT_TRUE(this->Append({.nodes = {MakeNode("n1", 1), MakeNode("n2", 5)}}).ok());
  EXPECT_TRUE(this->Append({.nodes = {MakeNode("n1", 2)}}).ok());
  const StoredState state = this->Reload();
  ASSERT_EQ(state.nodes.size(), 2u);
  EXPECT_EQ(state.nodes[0].node_id(), "n1");
  EXPECT_EQ(state.nodes[0].acked_event_seq(), 2u);
  EXPECT_EQ(state.nodes[1].acked_event_seq(), 5u);
}

TYPED_TEST(StoreContract, ForgetsAllEventsOfAJob) {
  this->Load();
  EXPECT_TRUE(this->Append({.events = {MakeEvent("a", 1, "1"), MakeEvent("b", 1, "2"),
                                       MakeEvent("a", 2, "3")}})
                  .ok());
  EXPECT_TRUE(
      this->Append({.events = {MakeEvent("c", 1, "4")}, .forgotten_jobs = {JobId("a")}}).ok());
  EXPECT_THAT(Describe(this->Reload()), ElementsAre("b/1=2", "c/1=4"));
}

TYPED_TEST(StoreContract, KeepsBytesThatAreNoText) {
  this->Load();
  StoredEvent event = MakeEvent("a", 1, "x");
  const std::string bytes("\x00\xff\n'\x80", 5);
  event.event.mutable_submitted()->mutable_spec()->set_working_directory(bytes);
  EXPECT_TRUE(this->Append({.events = {event}}).ok());
  const StoredState state = this->Reload();
  ASSERT_EQ(state.events.size(), 1u);
  EXPECT_EQ(state.events[0].event.submitted().spec().working_directory(), bytes);
}

TYPED_TEST(StoreContract, KeepsAnEmptyEvent) {
  this->Load();
  StoredEvent event;
  event.job = JobId("a");
  event.index = 1;
  EXPECT_TRUE(this->Append({.events = {event}}).ok());
  EXPECT_EQ(this->Reload().events.size(), 1u);
}

TYPED_TEST(StoreContract, AnswersInTheOrderOfTheCalls) {
  this->Load();
  std::vector<int> answers;
  const int count = 100;
  for (int i = 0; i < count; ++i) {
    this->store().Append({.events = {MakeEvent("a", static_cast<uint64_t>(i) + 1, "x")}},
                         [&, i](absl::Status status) {
                           EXPECT_TRUE(status.ok()) << status;
                           answers.push_back(i);
                           if (i + 1 == count) this->loop_.Stop();
                         });
  }
  this->loop_.PostAfter(std::chrono::seconds(20), [&] { this->loop_.Stop(); });
  this->loop_.Run();
  ASSERT_EQ(answers.size(), static_cast<size_t>(count));
  EXPECT_TRUE(std::is_sorted(answers.begin(), answers.end()));
}

}  // namespace
}  // namespace muster
