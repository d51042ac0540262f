// A Store that forgets everything with the process: for tests, for looking at an archive, and for a
// local run whose disk refuses even an empty file. Lives on the loop thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/executor.h"
#include "coordinator/core/store.h"

namespace muster {

class MemoryStore final : public Store {
 public:
  // Begins with `state`, as if it had been stored by an earlier process. `executor` outlives the
  // store.
  explicit MemoryStore(Executor& executor, StoredState state = {});
  ~MemoryStore() override;

  absl::StatusOr<StoredState> Load() override;
  void Append(StoreBatch batch, Done done) override;

 private:
  Executor& executor_;
  StoredState state_;
  // Expires with the store: answers that are still posted then are dropped.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace muster
