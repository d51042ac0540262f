// One agent's UploadLogs stream. Chunks go from the gRPC thread straight to the log store; only
// what has to do with rights goes through the loop.
//
//   hello, open -> loop: the session is the node's newest, the node may upload the file ->
//   committed size chunk       -> log store (its own thread) -> committed, several files and chunks
//   in one answer
//
// Failure rules: a file that the node has no business with is left out of the answer; a chunk of
// such a file, a chunk that is too large, or a gap, ends the stream. When the store is out of space
// the stream ends with UNAVAILABLE after a moment: the agent keeps the bytes and comes back. A
// newer upload of the same node ends this one with ABORTED. Memory: about kMaxQueuedBytes per
// stream, then reading pauses.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <optional>
#include <vector>

#include "common/rpc/outbound_stream.h"
#include "coordinator/rpc/stream_reactor.h"
#include "muster/v1/agent.pb.h"

namespace muster {

class LogUpload;

// The newest upload of every node. Lives on the loop.
using LogUploads = absl::flat_hash_map<NodeId, LogUpload*>;

class LogUpload final
    : public StreamReactor<grpc::ServerBidiReactor<grpc::ByteBuffer, v1::UploadLogsResponse>> {
 public:
  // Bytes that may wait for the disk.
  static constexpr size_t kMaxQueuedBytes = size_t{1} << 20;

  // `uploads` outlives this object.
  LogUpload(const ServiceContext& services, grpc::CallbackServerContext* call,
            std::optional<NodeId> node, LogUploads& uploads);

  // Reactions.
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;

 private:
  void Begin() override;
  void Ended() override;

  void Read();
  void HandleHello(const v1::LogHello& hello);
  void OpenFiles(const google::protobuf::RepeatedPtrField<v1::LogFile>& files, bool answer_always);
  void HandleChunk();
  void OnStored(const StoredLogId& file, size_t bytes, absl::StatusOr<uint64_t> committed);
  void SendCommitted();
  // Ends the stream. Loop only.
  void Fail(absl::Status status);

  const std::optional<NodeId> authenticated_;
  LogUploads& uploads_;
  grpc::ByteBuffer received_;
  v1::UploadLogsRequest incoming_;

  // Of the loop.
  std::optional<NodeId> node_;
  bool closing_ = false;

  Mutex mutex_;
  absl::flat_hash_set<StoredLogId> allowed_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  // Something went wrong: nothing is read any more.
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  // Sizes that the agent has not been told yet; only the newest of each counts.
  absl::flat_hash_map<StoredLogId, uint64_t> untold_ ABSL_GUARDED_BY(mutex_);

  OutboundStream<LogUpload, v1::UploadLogsResponse> outbound_{this};
};

}  // namespace muster
