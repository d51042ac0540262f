// An ended local job, served from its folder by the same services as a live one. Nothing in the
// folder is changed, but that output which only the nodes have is brought to the store. A job whose
// coordinator was killed is shown as what the coordinator knew last, and as failed, without a time
// of its end.
//
// Thread-safe after Open. Open and the destructor block.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "common/rpc/channel.h"

namespace muster {

class LocalArchive {
 public:
  // `folder`: see LocalJob. FAILED_PRECONDITION: its coordinator lives. DATA_LOSS: its store is
  // damaged.
  static absl::StatusOr<std::unique_ptr<LocalArchive>> Open(const std::string& folder);
  ~LocalArchive();
  LocalArchive(const LocalArchive&) = delete;
  LocalArchive& operator=(const LocalArchive&) = delete;

  // What keeps output that only the nodes have from being shown, in words; empty: nothing.
  const std::string& missing_output() const;

  // JobService; nothing can be submitted with any effect.
  std::shared_ptr<grpc::Channel> channel(ChannelUse use = ChannelUse::kControl);

 private:
  struct Parts;
  explicit LocalArchive(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster
