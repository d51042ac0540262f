#include "coordinator/trust/join_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "common/base/annotate.h"
#include "common/crypto/join_frame.h"
#include "common/crypto/join_token.h"

namespace muster {
namespace {

static_assert(POLLIN == 1, "the first value of events_");
// What is read and thrown away after the reply, so that closing does not destroy it on its way.
constexpr size_t kMaxDrainedBytes = size_t{256} << 10;

}  // namespace

void JoinConnection::Step(const TlsContext& context, JoinHandler& handler) {
  bool more = true;
  while (more) {
    switch (state_) {
      case State::kIdle:
        more = Start(context, handler);
        break;
      case State::kHandshake:
        more = Shake(handler);
        break;
      case State::kReading:
        more = Receive(handler);
        break;
      case State::kWriting:
        more = Send();
        break;
      case State::kDraining:
        more = Drain();
        break;
      case State::kOver:
        more = false;
        break;
    }
  }
}

void JoinConnection::GiveUp(const std::string& why, JoinHandler& handler) {
  // From the reply on it was told what came of it.
  if (state_ < State::kWriting) handler.Failed(why, address_);
  state_ = State::kOver;
}

bool JoinConnection::Start(const TlsContext& context, JoinHandler& handler) {
  absl::StatusOr<TlsSession> session = TlsSession::Server(context, fd_.get());
  if (!session.ok()) return Fail(session.status(), handler);
  session_ = *std::move(session);
  state_ = State::kHandshake;
  return true;
}

bool JoinConnection::Shake(JoinHandler& handler) {
  const absl::StatusOr<TlsProgress> progress = session_->Handshake();
  if (!progress.ok()) return Fail(progress.status(), handler);
  if (*progress != TlsProgress::kDone) return Wait(*progress);
  // A client that names no protocol is some other program.
  if (session_->Protocol() != kJoinAlpn) {
    return Fail(absl::InvalidArgumentError("the client does not name the join protocol"), handler);
  }
  state_ = State::kReading;
  return true;
}

bool JoinConnection::Receive(JoinHandler& handler) {
  // One byte more than there may be, to notice it.
  const size_t room = kJoinHeaderBytes + kMaxJoinRequestBytes + 1 - received_.size();
  const absl::StatusOr<TlsProgress> progress = session_->Read(room, received_);
  if (!progress.ok()) return Fail(progress.status(), handler);
  if (*progress == TlsProgress::kEnd) {
    return Fail(absl::UnavailableError("the client ended the connection before its request was "
                                       "complete"),
                handler);
  }
  if (*progress != TlsProgress::kDone) return Wait(*progress);
  const auto request = UnframeJoinMessage(received_, kMaxJoinRequestBytes);
  if (!request.ok()) {
    return Reply(handler.AnswerGarbage(std::string(MessageOf(request.status())), address_));
  }
  if (!*request) return true;
  return Reply(handler.Answer(**request, address_, session_->Exporter(kJoinExporterLabel)));
}

bool JoinConnection::Reply(std::string message) {
  reply_ = FrameJoinMessage(message);
  unsent_ = reply_;
  state_ = State::kWriting;
  return true;
}

bool JoinConnection::Send() {
  const absl::StatusOr<TlsProgress> progress = session_->Write(unsent_);
  if (!progress.ok()) {
    state_ = State::kOver;
    return false;
  }
  if (*progress != TlsProgress::kDone) return Wait(*progress);
  session_->SendEnd();
  // The client sees the end now; that it has gone is what is waited for.
  if (::shutdown(fd_.get(), SHUT_WR) != 0) {
    state_ = State::kOver;
    return false;
  }
  state_ = State::kDraining;
  return true;
}

bool JoinConnection::Drain() {
  char chunk[4096];
  const ssize_t count = ::recv(fd_.get(), chunk, sizeof chunk, MSG_DONTWAIT);
  if (count > 0) {
    drained_bytes_ += static_cast<size_t>(count);
    if (drained_bytes_ <= kMaxDrainedBytes) return true;
  }
  if (count < 0 && errno == EINTR) return true;
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return Wait(TlsProgress::kWantsRead);
  }
  state_ = State::kOver;
  return false;
}

bool JoinConnection::Wait(TlsProgress progress) {
  events_ = progress == TlsProgress::kWantsWrite ? POLLOUT : POLLIN;
  return false;
}

bool JoinConnection::Fail(const absl::Status& status, JoinHandler& handler) {
  GiveUp(std::string(MessageOf(status)), handler);
  return false;
}

}  // namespace muster
