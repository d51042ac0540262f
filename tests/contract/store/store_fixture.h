// What the tests of stores share: a folder, an executor, and short ways to append and to look.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/io/event_loop.h"
#include "coordinator/core/store.h"

namespace muster {

// A folder that goes away with the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string path = testing::TempDir() + "/muster-store-XXXXXX";
    path_ = mkdtemp(path.data());
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline StoredEvent MakeEvent(const std::string& job, uint64_t index, const std::string& name) {
  StoredEvent event;
  event.job = JobId(job);
  event.index = index;
  event.event.mutable_submitted()->mutable_spec()->set_name(name);
  return event;
}

inline internal::NodeRecord MakeNode(const std::string& node_id, uint64_t acked_event_seq) {
  internal::NodeRecord node;
  node.set_node_id(node_id);
  node.set_acked_event_seq(acked_event_seq);
  return node;
}

// Appends on `loop` and runs it until the answer is there.
inline absl::Status AppendAndWait(EventLoop& loop, Store& store, StoreBatch batch) {
  absl::Status result = absl::DeadlineExceededError("no answer");
  bool inside = true;
  const EventLoop::TimerId guard =
      loop.PostAfter(std::chrono::seconds(20), [&loop] { loop.Stop(); });
  store.Append(std::move(batch), [&](absl::Status status) {
    EXPECT_FALSE(inside) << "answered from inside Append";
    EXPECT_TRUE(loop.OnLoopThread());
    result = std::move(status);
    loop.Stop();
  });
  inside = false;
  loop.Run();
  loop.Cancel(guard);
  return result;
}

// "job/index=name" of every event, in order.
inline std::vector<std::string> Describe(const StoredState& state) {
  std::vector<std::string> lines;
  for (const StoredEvent& event : state.events) {
    lines.push_back(fmt::format("{}/{}={}", event.job.value(), event.index,
                                event.event.submitted().spec().name()));
  }
  return lines;
}

}  // namespace muster
