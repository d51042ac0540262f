#include "tests/sim/cluster/sim_coordinator.h"

#include <set>

namespace muster::testing {
namespace {

using std::chrono::milliseconds;

LogKey KeyOfFile(const v1::LogFile& file) {
  return {{JobId(file.key().job_id()), file.key().attempt()}, file.rank()};
}

}  // namespace

// --- Store ---

absl::StatusOr<StoredState> SimStore::Load() {
  StoredState state;
  state.epoch = ++disk_.epoch;
  state.events = disk_.events;
  for (const auto& [id, node] : disk_.nodes) state.nodes.push_back(node);
  return state;
}

void SimStore::Append(StoreBatch batch, Done done) {
  if (!process_.alive()) return;
  const Persist fate = fate_();
  if (fate == Persist::kLost) return;
  if (fate == Persist::kKept) return Apply(batch);
  process_.PostAfter(random_.Between(std::chrono::microseconds(100), milliseconds(15)),
                     [this, fate, batch = std::move(batch), done = std::move(done)] {
                       if (fate == Persist::kFails) {
                         done(absl::ResourceExhaustedError("the disk is full"));
                         return;
                       }
                       Apply(batch);
                       done(absl::OkStatus());
                     });
}

void SimStore::Apply(const StoreBatch& batch) {
  for (const StoredEvent& event : batch.events) disk_.events.push_back(event);
  for (const internal::NodeRecord& node : batch.nodes) disk_.nodes[node.node_id()] = node;
  for (const JobId& job : batch.forgotten_jobs) {
    std::erase_if(disk_.events, [&](const StoredEvent& event) { return event.job == job; });
  }
  on_stored_(batch);
}

// --- Streams ---

struct SimCoordinator::Session final : AgentSink {
  void Send(v1::CoordinatorMessage message) override {
    if (!process->alive()) return;
    // What is wanted may be said again.
    if (message.has_assignment() && random->Chance(0.02)) stream->SendDown(message);
    stream->SendDown(std::move(message));
  }
  void Close(absl::Status status) override {
    if (!process->alive()) return;
    truth->Note(
        fmt::format("coordinator closes session of {}: {}", node.value(), status.ToString()));
    closing = true;
    stream->CloseFromCoordinator();
    process->Post([this] { disconnected(); });
  }

  NodeId node;
  SimExecutor* process = nullptr;
  Random* random = nullptr;
  Truth* truth = nullptr;
  std::shared_ptr<SessionStream> stream;
  SessionHandle handle = SessionHandle::kNone;
  std::function<void()> disconnected;
  bool closing = false;
};

struct SimCoordinator::Upload {
  NodeId node;
  std::shared_ptr<LogStream> stream;
  bool greeted = false;
  bool closed = false;
  // Files that were opened, with the size up to which their committed size was told.
  std::map<LogKey, uint64_t> told;
};

SimCoordinator::SimCoordinator(SimQueue& queue, Random& random, Truth& truth, CoordinatorDisk& disk,
                               const CoordinatorOptions& options, Hooks hooks)
    : queue_(queue),
      random_(random),
      truth_(truth),
      disk_(disk),
      process_(queue),
      store_(process_, random, disk, std::move(hooks.fate), std::move(hooks.on_stored)),
      received_(disk.logs) {
  core_ = std::make_unique<CoordinatorCore>(options, process_, store_,
                                            [this] { return random_.Next(); });
  const absl::Status started = core_->Start();
  if (!started.ok()) truth_.Violation("coordinator cannot start: " + started.ToString());
}

SimCoordinator::~SimCoordinator() { core_.reset(); }

void SimCoordinator::Accept(const NodeId& node, std::shared_ptr<SessionStream> stream) {
  Session& session = *sessions_.emplace_back(std::make_unique<Session>());
  session.node = node;
  session.process = &process_;
  session.random = &random_;
  session.truth = &truth_;
  session.stream = stream;
  session.handle = core_->OnAgentConnected(&session, node);
  session.disconnected = [this, &session] { core_->OnAgentDisconnected(session.handle); };
  stream->SetCoordinatorEnd({.on_message =
                                 [this, &session](const v1::AgentMessage& message) {
                                   if (!process_.alive() || session.closing) return;
                                   core_->OnAgentMessage(session.handle, message);
                                 },
                             .on_closed =
                                 [this, &session] {
                                   if (process_.alive()) session.disconnected();
                                 }});
}

void SimCoordinator::Die() {
  process_.Kill();
  for (const auto& session : sessions_) session->stream->CoordinatorDied();
  for (const auto& upload : uploads_) upload->stream->CoordinatorDied();
  // The files got some of what was received and not yet reported.
  for (auto& [key, bytes] : received_) {
    std::string& stored = disk_.logs[key];
    stored +=
        bytes.substr(stored.size(), random_.Between(uint64_t{0}, bytes.size() - stored.size()));
  }
}

// --- Logs ---

void SimCoordinator::AcceptLogs(const NodeId& node, std::shared_ptr<LogStream> stream) {
  Upload& upload = *uploads_.emplace_back(std::make_unique<Upload>());
  upload.node = node;
  upload.stream = stream;
  stream->SetCoordinatorEnd({.on_message =
                                 [this, &upload](const v1::UploadLogsRequest& request) {
                                   if (process_.alive() && !upload.closed) {
                                     OnUpload(upload, request);
                                   }
                                 },
                             .on_closed = [&upload] { upload.closed = true; }});
}

void SimCoordinator::OnUpload(Upload& upload, const v1::UploadLogsRequest& request) {
  if (request.has_hello()) {
    if (core_->NodeOfSession(request.hello().session_id()) != upload.node) {
      return Refuse(upload, "not the newest session");
    }
    upload.greeted = true;
    for (const auto& other : uploads_) {
      if (other.get() == &upload || other->node != upload.node || other->closed) continue;
      if (other->greeted) Refuse(*other, "a newer log connection replaced this one");
    }
    for (const v1::LogFile& file : request.hello().files()) OpenFile(upload, file);
  } else if (!upload.greeted) {
    Refuse(upload, "no hello");
  } else if (request.has_open()) {
    for (const v1::LogFile& file : request.open().files()) OpenFile(upload, file);
  } else if (request.has_chunk()) {
    OnChunk(upload, request.chunk());
  }
}

void SimCoordinator::OpenFile(Upload& upload, const v1::LogFile& file) {
  const LogKey key = KeyOfFile(file);
  if (!core_->MayUpload(upload.node, key.first, Rank{key.second})) return;
  const uint64_t size = disk_.logs[key].size();
  // Bytes of an older connection that are not on the disk yet will be sent again.
  received_[key] = disk_.logs[key];
  upload.told[key] = size;
  core_->OnLogCommitted(key.first, Rank{key.second}, size);
  v1::UploadLogsResponse response;
  v1::CommittedLog& committed = *response.add_committed();
  *committed.mutable_file() = file;
  committed.set_committed_size(size);
  upload.stream->SendDown(std::move(response));
}

void SimCoordinator::OnChunk(Upload& upload, const v1::LogChunk& chunk) {
  const LogKey key = KeyOfFile(chunk.file());
  if (!upload.told.contains(key)) return Refuse(upload, "the file was not opened");
  std::string& bytes = received_[key];
  if (chunk.offset() != bytes.size()) {
    // Another connection of the node took the file over.
    return Refuse(upload, fmt::format("chunk at {} of a file of {}", chunk.offset(), bytes.size()));
  }
  bytes += chunk.data();
  const std::string& written = truth_.Rank(key.first, key.second).log;
  if (written.compare(0, bytes.size(), bytes) != 0) {
    truth_.Violation(fmt::format("log of {} rank {} is no prefix of what was written",
                                 Truth::Name(key.first), key.second));
  }
  if (std::exchange(flush_posted_, true)) return;
  process_.PostAfter(random_.Between(milliseconds(0), milliseconds(20)), [this] { Flush(); });
}

void SimCoordinator::Flush() {
  flush_posted_ = false;
  for (const auto& [key, bytes] : received_) {
    std::string& stored = disk_.logs[key];
    if (bytes.size() < stored.size()) continue;
    stored = bytes;
  }
  for (const auto& upload : uploads_) {
    if (upload->closed) continue;
    v1::UploadLogsResponse response;
    for (auto& [key, told] : upload->told) {
      const uint64_t size = disk_.logs[key].size();
      if (size == told) continue;
      told = size;
      core_->OnLogCommitted(key.first, Rank{key.second}, size);
      v1::CommittedLog& committed = *response.add_committed();
      committed.mutable_file()->mutable_key()->set_job_id(key.first.job.value());
      committed.mutable_file()->mutable_key()->set_attempt(key.first.attempt);
      committed.mutable_file()->set_rank(key.second);
      committed.set_committed_size(size);
    }
    if (response.committed_size() > 0) upload->stream->SendDown(std::move(response));
  }
}

void SimCoordinator::Refuse(Upload& upload, const std::string& why) {
  truth_.Note(fmt::format("coordinator refuses logs of {}: {}", upload.node.value(), why));
  upload.closed = true;
  upload.stream->CloseFromCoordinator();
}

}  // namespace muster::testing
