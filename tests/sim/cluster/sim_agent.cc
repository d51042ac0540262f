#include "tests/sim/cluster/sim_agent.h"

#include <utility>

namespace muster::testing {

using std::chrono::milliseconds;

struct SimAgent::SessionSink final : AgentSessionSink {
  void Send(v1::AgentMessage message) override {
    if (!agent->process_.alive()) return;
    // Whoever tells facts may tell them again, for all the receiver knows.
    if (message.has_events() && agent->random_.Chance(0.02)) stream->SendUp(message);
    stream->SendUp(std::move(message));
  }
  void Close(absl::Status status) override {
    if (!agent->process_.alive()) return;
    agent->truth_.Note(fmt::format("{} closes its session: {}", agent->node_, status.ToString()));
    if (status.code() == absl::StatusCode::kFailedPrecondition) {
      agent->truth_.Violation(
          fmt::format("{} refuses the coordinator: {}", agent->node_, status.ToString()));
    }
    over = true;
    stream->CloseFromAgent();
    agent->DialLater();
  }

  SimAgent* agent = nullptr;
  std::shared_ptr<SessionStream> stream;
  bool over = false;
};

struct SimAgent::UploadSink final : LogSink {
  void Send(v1::UploadLogsRequest request) override {
    if (agent->process_.alive()) stream->SendUp(std::move(request));
  }
  void Close(absl::Status status) override {
    if (!agent->process_.alive()) return;
    agent->truth_.Violation(fmt::format("{} log stream: {}", agent->node_, status.ToString()));
    over = true;
    stream->CloseFromAgent();
    agent->logs_.OnEnded();
  }

  SimAgent* agent = nullptr;
  std::shared_ptr<LogStream> stream;
  bool over = false;
};

SimAgent::SimAgent(SimQueue& queue, Random& random, Truth& truth, FakeHost& host, AgentDisk& disk,
                   AgentOptions options, Hooks hooks)
    : queue_(queue),
      random_(random),
      truth_(truth),
      node_(options.node_id.value()),
      hooks_(std::move(hooks)),
      process_(queue),
      store_(disk, node_, hooks_.fate),
      launcher_(process_, host, random),
      shipper_(process_, options.node_id, launcher_,
               {.committed =
                    [this](const LogFileId& file, uint64_t bytes) {
                      launcher_.Committed(file.attempt, file.rank, bytes);
                    },
                .complete = {},
                .failed =
                    [this](const LogFileId&, const absl::Status& status) {
                      truth_.Violation(fmt::format("{} {}", node_, status.ToString()));
                    },
                .work = [this](bool work) { logs_.OnWork(work); }}),
      network_(process_, truth, node_, hooks_.network),
      logs_(process_, *this, random.Next(), hooks_.log_idle),
      backoff_({}, random.Next()) {
  options.pending_log_bytes = [this] { return shipper_.pending_bytes(); };
  core_ = std::make_unique<AgentCore>(process_, store_, launcher_, users_, network_, *this,
                                      std::move(options));
  const absl::Status started = core_->Start();
  if (!started.ok())
    truth_.Violation(fmt::format("{} cannot start: {}", node_, started.ToString()));
  DialLater();
}

SimAgent::~SimAgent() { core_.reset(); }

void SimAgent::Die() {
  process_.Kill();
  for (const auto& session : sessions_) {
    if (!session->over) session->stream->AgentDied();
  }
  for (const auto& upload : uploads_) {
    if (!upload->over) upload->stream->AgentDied();
  }
}

// --- Session ---

void SimAgent::DialLater() {
  process_.Cancel(dial_timer_);
  dial_timer_ = process_.PostAfter(backoff_.Next(), [this] { Dial(); });
}

void SimAgent::Dial() {
  std::shared_ptr<SessionStream> stream = hooks_.dial();
  if (stream == nullptr) return DialLater();
  SessionSink& sink = *sessions_.emplace_back(std::make_unique<SessionSink>());
  sink.agent = this;
  sink.stream = stream;
  stream->SetAgentEnd({.on_message =
                           [this, &sink](const v1::CoordinatorMessage& message) {
                             if (!process_.alive() || sink.over) return;
                             if (message.has_welcome()) backoff_.Reset();
                             core_->OnMessage(message);
                           },
                       .on_closed =
                           [this, &sink] {
                             if (!process_.alive() || std::exchange(sink.over, true)) return;
                             core_->OnDisconnected(absl::UnavailableError("the stream ended"));
                             DialLater();
                           }});
  core_->OnConnected(&sink);
}

// --- Logs ---

void SimAgent::OnSession(const std::string& session_id) {
  OnSessionLost();
  shipper_.OnSession(session_id);
  logs_.OnSession();
}

void SimAgent::OnSessionLost() {
  logs_.OnSessionLost();
  shipper_.OnSessionLost();
}

bool SimAgent::Open() {
  // It may have died in the middle of a call.
  if (!process_.alive()) return false;
  std::shared_ptr<LogStream> stream = hooks_.dial_logs();
  if (stream == nullptr) return false;
  UploadSink& sink = *uploads_.emplace_back(std::make_unique<UploadSink>());
  sink.agent = this;
  sink.stream = stream;
  stream->SetAgentEnd({.on_message =
                           [this, &sink](const v1::UploadLogsResponse& response) {
                             if (!process_.alive() || sink.over) return;
                             logs_.OnAnswered();
                             shipper_.OnMessage(response);
                           },
                       .on_closed =
                           [this, &sink] {
                             if (!process_.alive() || std::exchange(sink.over, true)) return;
                             shipper_.OnDisconnected();
                             logs_.OnEnded();
                           }});
  shipper_.OnConnected(&sink);
  return true;
}

void SimAgent::Close() {
  shipper_.OnDisconnected();
  UploadSink& sink = *uploads_.back();
  if (std::exchange(sink.over, true) || !process_.alive()) return;
  sink.stream->CloseFromAgent();
}

void SimAgent::OnNotice(Severity severity, const std::string& line) {
  if (!process_.alive()) return;
  truth_.Note(fmt::format("{} {}{}", node_, severity == Severity::kError ? "ERROR " : "", line));
}

void SimAgent::OnAttempt(const AttemptId& id, const std::vector<uint32_t>& ranks) {
  shipper_.AddFiles(id, ranks);
}

void SimAgent::OnLogClosed(const AttemptId& id, uint32_t rank, uint64_t size) {
  shipper_.OnClosed({id, rank}, size);
}

void SimAgent::OnForgotten(const AttemptId& id) { shipper_.RemoveAttempt(id); }

}  // namespace muster::testing
