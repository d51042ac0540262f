#include "coordinator/rpc/log_upload.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "common/base/annotate.h"
#include "common/log/log.h"
#include "common/rpc/bounded_message.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/limits.h"

namespace muster {
namespace {

// A chunk that waits, its data apart, about.
constexpr size_t kChunkBytes = 256;

StoredLogId IdOf(const v1::LogFile& file) {
  return {{JobId(file.key().job_id()), file.key().attempt()}, Rank{file.rank()}};
}

std::string Describe(const StoredLogId& id) {
  return fmt::format("job {} attempt {} rank {}", id.attempt.job.value(), id.attempt.attempt,
                     id.rank.value);
}

void Fill(const StoredLogId& id, uint64_t size, v1::CommittedLog* committed) {
  committed->mutable_file()->mutable_key()->set_job_id(id.attempt.job.value());
  committed->mutable_file()->mutable_key()->set_attempt(id.attempt.attempt);
  committed->mutable_file()->set_rank(id.rank.value);
  committed->set_committed_size(size);
}

}  // namespace

LogUpload::LogUpload(const ServiceContext& services, grpc::CallbackServerContext* call,
                     std::optional<NodeId> node, LogUploads& uploads)
    : StreamReactor(services, call), authenticated_(std::move(node)), uploads_(uploads) {}

void LogUpload::Begin() { Read(); }

void LogUpload::Read() {
  IfOpen([this] { StartRead(&received_); });
}

void LogUpload::OnReadDone(bool ok) {
  if (ok) {
    const absl::Status parsed = ParseBounded(
        received_, {.wire_bytes = kMaxAgentMessageBytes, .memory_bytes = kMaxAgentMessageMemory},
        &incoming_);
    received_.Clear();
    if (!parsed.ok()) return OnLoop([this, parsed] { Fail(parsed); });
  }
  if (ok && incoming_.has_chunk()) {
    HandleChunk();
    return;
  }
  // Until the loop is through nothing else is read, so `incoming_` is its.
  OnLoop([this, ok] {
    if (!ok) {
      Fail(absl::OkStatus());
    } else if (closing_) {
      return;
    } else if (incoming_.has_hello()) {
      HandleHello(incoming_.hello());
    } else if (incoming_.has_open() && node_.has_value()) {
      OpenFiles(incoming_.open().files(), false);
    } else {
      Fail(absl::InvalidArgumentError("expected hello first, then chunk or open"));
    }
  });
}

void LogUpload::HandleHello(const v1::LogHello& hello) {
  if (node_.has_value()) {
    Fail(absl::InvalidArgumentError("a second hello on one stream"));
    return;
  }
  const NodeId claimed(hello.node_id());
  if (authenticated_.has_value() && *authenticated_ != claimed) {
    Fail(absl::PermissionDeniedError(
        fmt::format("the credentials are not those of node {}", claimed.value())));
    return;
  }
  const std::optional<NodeId> node = services().core.NodeOfSession(hello.session_id());
  if (!node.has_value() || *node != claimed) {
    Fail(absl::AbortedError(
        fmt::format("the session is not the newest one of node {}", claimed.value())));
    return;
  }
  node_ = claimed;
  LogUpload*& newest = uploads_[claimed];
  if (newest != nullptr) {
    newest->Fail(absl::AbortedError("a newer log connection of the node replaced this one"));
  }
  newest = this;
  OpenFiles(hello.files(), true);
}

void LogUpload::OpenFiles(const google::protobuf::RepeatedPtrField<v1::LogFile>& files,
                          bool answer_always) {
  std::vector<StoredLogId> wanted;
  for (const v1::LogFile& file : files) {
    StoredLogId id = IdOf(file);
    if (!services().core.MayUpload(*node_, id.attempt, id.rank)) continue;
    wanted.push_back(std::move(id));
  }
  {
    MutexLock lock(mutex_);
    allowed_.insert(wanted.begin(), wanted.end());
  }
  Read();
  auto done = [self = shared_from_this(), this, wanted,
               answer_always](absl::StatusOr<std::vector<uint64_t>> sizes) {
    OnLoop([this, wanted = std::move(wanted), answer_always, sizes = std::move(sizes)] {
      if (!sizes.ok()) {
        Fail(absl::UnavailableError(ToAbsl(MessageOf(sizes.status()))));
        return;
      }
      v1::UploadLogsResponse response;
      for (size_t i = 0; i < wanted.size(); ++i) {
        Fill(wanted[i], (*sizes)[i], response.add_committed());
        services().core.OnLogCommitted(wanted[i].attempt, wanted[i].rank, (*sizes)[i]);
      }
      if (wanted.empty() && !answer_always) return;
      if (outbound_.Send(std::move(response)) == SendResult::kFull) CancelCall();
    });
  };
  services().logs.GetCommitted(wanted, std::move(done));
}

void LogUpload::HandleChunk() {
  v1::LogChunk& chunk = *incoming_.mutable_chunk();
  const StoredLogId id = IdOf(chunk.file());
  absl::Status refused;
  if (chunk.data().size() > kMaxLogChunkBytes || chunk.zeros() > kMaxUncommittedLogBytes) {
    refused = absl::InvalidArgumentError(fmt::format(
        "{}: a chunk has {} bytes and {} zeros, at most {} and {} are allowed", Describe(id),
        chunk.data().size(), chunk.zeros(), kMaxLogChunkBytes, kMaxUncommittedLogBytes));
    chunk.clear_data();
    chunk.clear_zeros();
  }
  // What it takes in memory: zeros take none.
  const size_t bytes = kChunkBytes + chunk.data().size();
  bool read_on = false;
  {
    MutexLock lock(mutex_);
    // Bytes that come behind the sizes that the newer upload was told would be too many for it.
    if (broken_) return;
    if (!allowed_.contains(id)) {
      refused = absl::FailedPreconditionError(
          fmt::format("{}: this node has no such file to upload", Describe(id)));
    } else if (refused.ok()) {
      queued_bytes_ += bytes;
      paused_ = queued_bytes_ >= kMaxQueuedBytes;
      read_on = !paused_;
      // Under the lock: nothing is appended once Fail returned.
      LogPiece piece{.data = std::move(*chunk.mutable_data()), .zeros = chunk.zeros()};
      services().logs.Append(id, chunk.offset(), std::move(piece),
                             [self = shared_from_this(), this, id, bytes](auto committed) {
                               OnStored(id, bytes, std::move(committed));
                             });
    }
    if (!refused.ok()) broken_ = true;
  }
  if (!refused.ok()) {
    OnLoop([this, refused] { Fail(refused); });
    return;
  }
  if (read_on) Read();
}

void LogUpload::OnStored(const StoredLogId& file, size_t bytes,
                         absl::StatusOr<uint64_t> committed) {
  bool read_on = false;
  bool first_error = false;
  {
    MutexLock lock(mutex_);
    queued_bytes_ -= bytes;
    if (committed.ok()) {
      untold_[file] = *committed;
    } else {
      first_error = !std::exchange(broken_, true);
    }
    if (paused_ && queued_bytes_ < kMaxQueuedBytes / 2) {
      paused_ = false;
      read_on = !broken_;
    }
  }
  if (read_on) Read();
  SendCommitted();
  if (!first_error) return;
  OnLoop([this, status = committed.status()] {
    if (!absl::IsResourceExhausted(status)) {
      Fail(status);
      return;
    }
    // Not at once: the agent would come back with the same bytes, over and over.
    services().loop.PostAfter(std::chrono::seconds(1), [self = shared_from_this(), this, status] {
      Fail(absl::UnavailableError(ToAbsl(MessageOf(status))));
    });
  });
}

void LogUpload::SendCommitted() {
  v1::UploadLogsResponse response;
  // Sent under the lock: this is called by several threads, and sizes must never go back.
  MutexLock lock(mutex_);
  // While one answer is on its way the next one gathers.
  if (untold_.empty() || outbound_.queued_messages() > 0) return;
  for (const auto& [id, size] : untold_) Fill(id, size, response.add_committed());
  untold_.clear();
  (void)outbound_.Send(std::move(response));  // closed: the agent asks again
}

void LogUpload::OnWriteDone(bool ok) {
  outbound_.OnWriteDone(ok);
  if (ok) SendCommitted();
}

void LogUpload::Fail(absl::Status status) {
  if (std::exchange(closing_, true)) return;
  if (!status.ok()) {
    spdlog::warn("log upload ended node={} error={}", node_.has_value() ? node_->value() : "",
                 LogQuoted(MessageOf(status)));
  }
  {
    MutexLock lock(mutex_);
    broken_ = true;
  }
  LimitClosing();
  outbound_.CloseAfterFlush([this, status = ToGrpc(status)](bool) { FinishCall(status); });
}

void LogUpload::Ended() {
  if (!node_.has_value()) return;
  const auto newest = uploads_.find(*node_);
  if (newest != uploads_.end() && newest->second == this) uploads_.erase(newest);
}

}  // namespace muster
