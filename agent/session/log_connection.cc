#include "agent/session/log_connection.h"

#include <utility>

namespace muster {

LogConnection::LogConnection(Executor& executor, LogTransport& transport, uint64_t seed,
                             Duration idle)
    : executor_(executor), transport_(transport), idle_(idle), backoff_(kBackoff, seed) {}

LogConnection::~LogConnection() { executor_.Cancel(timer_); }

void LogConnection::OnSession() {
  OnSessionLost();
  session_ = true;
  backoff_.Reset();
  Act();
}

void LogConnection::OnSessionLost() {
  session_ = false;
  executor_.Cancel(std::exchange(timer_, 0));
  if (open_) Close();
}

void LogConnection::OnWork(bool work) {
  work_ = work;
  Act();
}

void LogConnection::OnAnswered() { backoff_.Reset(); }

void LogConnection::OnEnded() {
  open_ = false;
  executor_.Cancel(std::exchange(timer_, 0));
  // Without work, too: what comes right afterwards must not dial without a pause.
  if (session_) Await(backoff_.Next(), &LogConnection::Act);
}

void LogConnection::Act() {
  if (!session_) return;
  if (!open_) {
    if (work_ && timer_ == 0) Dial();
  } else if (work_) {
    executor_.Cancel(std::exchange(timer_, 0));
  } else if (timer_ == 0) {
    Await(idle_, &LogConnection::Close);
  }
}

void LogConnection::Dial() {
  // Before Open, which may say what work there is.
  open_ = true;
  if (transport_.Open()) return;
  open_ = false;
  executor_.Cancel(std::exchange(timer_, 0));
  Await(kBackoff.most, &LogConnection::Act);
}

void LogConnection::Close() {
  open_ = false;
  transport_.Close();
}

void LogConnection::Await(Duration delay, void (LogConnection::*then)()) {
  timer_ = executor_.PostAfter(delay, [this, then] {
    timer_ = 0;
    (this->*then)();
  });
}

}  // namespace muster
