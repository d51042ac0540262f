#include "tests/sim/cluster/fake_host.h"

#include <algorithm>
#include <utility>

namespace muster::testing {
namespace {

using internal::ShimRankExited;
using internal::ShimRecord;
using std::chrono::milliseconds;

constexpr int kSigTerm = 15;
constexpr int kSigKill = 9;

}  // namespace

FakeHost::FakeHost(SimQueue& queue, Random& random, const ScriptBook& book, Truth& truth,
                   std::string node)
    : queue_(queue), random_(random), book_(book), truth_(truth), node_(std::move(node)) {}

// --- Directories and records ---

bool FakeHost::ShimAlive(const AttemptId& id) const {
  const auto found = attempts_.find(id);
  return found != attempts_.end() && found->second.alive;
}

std::vector<AttemptId> FakeHost::Directories() const {
  std::vector<AttemptId> ids;
  for (const auto& [id, attempt] : attempts_) ids.push_back(id);
  return ids;
}

std::vector<AttemptId> FakeHost::LiveShims() const {
  std::vector<AttemptId> ids;
  for (const auto& [id, attempt] : attempts_) {
    if (attempt.alive) ids.push_back(id);
  }
  return ids;
}

std::vector<ShimRecord> FakeHost::RecordsFrom(const AttemptId& id, uint64_t index) const {
  std::vector<ShimRecord> records;
  const auto found = attempts_.find(id);
  if (found == attempts_.end()) return records;
  for (size_t i = index - 1; i < found->second.records.size(); ++i) {
    if (!records.emplace_back().ParseFromString(found->second.records[i])) std::abort();
  }
  return records;
}

const std::string* FakeHost::Log(const AttemptId& id, uint32_t rank) const {
  const auto found = attempts_.find(id);
  if (found == attempts_.end()) return nullptr;
  const auto rank_found = found->second.ranks.find(rank);
  return rank_found == found->second.ranks.end() ? nullptr : &rank_found->second.log;
}

uint64_t FakeHost::FirstByte(const AttemptId& id, uint32_t rank) const {
  return attempts_.at(id).ranks.at(rank).punched;
}

FakeHost::Attempt* FakeHost::Live(const AttemptId& id) {
  const auto found = attempts_.find(id);
  return found == attempts_.end() || !found->second.alive ? nullptr : &found->second;
}

void FakeHost::After(const AttemptId& id, Duration delay, std::function<void(Attempt&)> task) {
  queue_.Add(delay, [this, id, incarnation = attempts_.at(id).incarnation, task = std::move(task)] {
    Attempt* const attempt = Live(id);
    if (attempt != nullptr && attempt->incarnation == incarnation) task(*attempt);
  });
}

void FakeHost::Record(const AttemptId& id, Attempt& attempt, ShimRecord record) {
  record.set_index(attempt.records.size() + 1);
  record.set_time_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(
                         queue_.clock().WallNow().time_since_epoch())
                         .count());
  attempt.records.push_back(record.SerializeAsString());
  truth_.Note(fmt::format("{} shim {} record {} kind {}", node_, Truth::Name(id), record.index(),
                          static_cast<int>(record.body_case())));
  if (listener_) listener_(id);
}

// --- Life of a shim ---

void FakeHost::StartShim(const AttemptId& id, const internal::ShimBootstrap& bootstrap) {
  Attempt& attempt = attempts_[id];
  attempt.bootstrap = bootstrap;
  attempt.alive = true;
  attempt.incarnation = next_incarnation_++;
  truth_.Launched(id, node_, bootstrap.reserve_port());
  for (const internal::ShimRank& rank : bootstrap.ranks()) {
    const std::string name = rank.argv_size() > 1 ? rank.argv(1) : "";
    attempt.ranks[rank.rank()].script = book_.Find(name, rank.rank());
  }
  if (bootstrap.lease_ms() != 0) {
    attempt.lease_until = queue_.clock().Now() + milliseconds(bootstrap.lease_ms());
    WatchLease(id);
  }
  ShimRecord begun;
  begun.mutable_begun()->set_pid(1);
  Record(id, attempt, begun);
  After(id, random_.Between(milliseconds(1), milliseconds(60)),
        [this, id](Attempt& later) { Prepare(id, later); });
}

void FakeHost::Prepare(const AttemptId& id, Attempt& attempt) {
  if (attempt.stopping) return;
  ShimRecord record;
  // Slots are leased: no two living shims of a node hold the same.
  for (const auto& [other_id, other] : attempts_) {
    if (other_id == id || !other.alive || !other.prepared) continue;
    if (other.stopped && std::none_of(other.ranks.begin(), other.ranks.end(),
                                      [](const auto& rank) { return rank.second.running; })) {
      continue;
    }
    for (const uint32_t slot : attempt.bootstrap.slots()) {
      if (std::find(other.bootstrap.slots().begin(), other.bootstrap.slots().end(), slot) ==
          other.bootstrap.slots().end()) {
        continue;
      }
      internal::ShimProblem& problem = *record.mutable_prepare_failed()->add_problems();
      problem.set_check("slot-lease");
      problem.set_message(fmt::format("slot {} is held by {}", slot, Truth::Name(other_id)));
    }
  }
  for (const auto& [number, rank] : attempt.ranks) {
    if (!rank.script.prepare_fails) continue;
    internal::ShimProblem& problem = *record.mutable_prepare_failed()->add_problems();
    problem.set_check("script");
    problem.set_message(fmt::format("rank {} cannot be prepared", number));
  }
  if (record.has_prepare_failed()) {
    attempt.prepare_failed = true;
  } else {
    attempt.prepared = true;
    if (attempt.bootstrap.reserve_port()) attempt.port = next_port_++;
    record.mutable_prepared()->set_port(attempt.port);
  }
  Record(id, attempt, record);
}

bool FakeHost::Listens(uint32_t port) const {
  return std::any_of(attempts_.begin(), attempts_.end(), [&](const auto& entry) {
    const Attempt& attempt = entry.second;
    return attempt.alive && attempt.prepared && !attempt.run && !attempt.stopping &&
           attempt.port == port && port != 0;
  });
}

void FakeHost::Run(const AttemptId& id, const std::string& address, uint32_t port) {
  Attempt* const attempt = Live(id);
  if (attempt != nullptr) truth_.Meets(id, address, port);
  if (attempt == nullptr || !attempt->prepared || attempt->run || attempt->stopping) return;
  attempt->run = true;
  for (const auto& [number, rank] : attempt->ranks) {
    After(id, random_.Between(milliseconds(0), milliseconds(20)),
          [this, id, number = number](Attempt& later) { StartRank(id, later, number); });
  }
}

void FakeHost::StartRank(const AttemptId& id, Attempt& attempt, uint32_t number) {
  Rank& rank = attempt.ranks.at(number);
  if (attempt.stopping) {
    rank.ended = true;
    CheckDone(id, attempt);
    return;
  }
  if (rank.script.exec_fails) {
    EndRank(id, attempt, number, {.exec_failed = true});
    return;
  }
  rank.running = true;
  truth_.Started(node_, id, number);
  ShimRecord record;
  record.mutable_rank_started()->set_rank(number);
  record.mutable_rank_started()->set_pid(static_cast<int>(1000 + number));
  Record(id, attempt, record);
  if (rank.script.run >= Duration(0)) {
    // A rank ends whether or not somebody watches it.
    queue_.Add(rank.script.run,
               [this, id, number, boot = boot_, incarnation = attempt.incarnation] {
                 const auto found = attempts_.find(id);
                 if (found == attempts_.end() || boot != boot_) return;
                 Attempt& later = found->second;
                 Rank& ending = later.ranks.at(number);
                 if (later.incarnation != incarnation || !ending.running) return;
                 const RankEnd end{ending.script.exit_code, ending.script.signal, false};
                 if (later.alive) {
                   EndRank(id, later, number, end);
                 } else {
                   ending.running = false;
                   truth_.Ended(id, number, end);
                 }
               });
  }
  Write(id, number, rank);
  ScheduleOutput(id, number);
}

void FakeHost::ScheduleOutput(const AttemptId& id, uint32_t number) {
  const Duration every = attempts_.at(id).ranks.at(number).script.output_every;
  After(id, random_.Between(every / 2, every), [this, id, number](Attempt& attempt) {
    Rank& rank = attempt.ranks.at(number);
    if (!rank.running || rank.log_closed) return;
    Write(id, number, rank);
    ScheduleOutput(id, number);
  });
}

void FakeHost::Write(const AttemptId& id, uint32_t number, Rank& rank) {
  std::string bytes;
  const uint64_t count = random_.Between(0, 2 * rank.script.output_bytes);
  for (uint64_t i = 0; i < count; ++i) {
    bytes += static_cast<char>('a' + (rank.log.size() + i) * 7 % 26);
  }
  rank.log += bytes;
  truth_.Rank(id, number).log += bytes;
}

void FakeHost::EndRank(const AttemptId& id, Attempt& attempt, uint32_t number, RankEnd end) {
  Rank& rank = attempt.ranks.at(number);
  rank.running = false;
  rank.ended = true;
  truth_.Ended(id, number, end);
  ShimRecord record;
  ShimRankExited& exited = *record.mutable_rank_exited();
  exited.set_rank(number);
  if (end.exec_failed) {
    exited.set_kind(ShimRankExited::EXEC_FAILED);
    exited.set_value(2);
    exited.set_step("execve");
    exited.set_message("no such file or directory");
  } else if (end.signal != 0) {
    exited.set_kind(ShimRankExited::SIGNAL);
    exited.set_value(end.signal);
  } else {
    exited.set_kind(ShimRankExited::CODE);
    exited.set_value(end.code);
  }
  Record(id, attempt, record);
  After(id, random_.Between(milliseconds(0), milliseconds(30)), [this, id, number](Attempt& later) {
    Rank& closing = later.ranks.at(number);
    closing.log_closed = true;
    ShimRecord closed;
    closed.mutable_log_closed()->set_rank(number);
    closed.mutable_log_closed()->set_size(closing.log.size());
    closed.mutable_log_closed()->set_written_bytes(closing.log.size());
    Record(id, later, closed);
    CheckDone(id, later);
  });
}

void FakeHost::CheckDone(const AttemptId& id, Attempt& attempt) {
  if (attempt.stopped) return;
  std::vector<std::string> unkillable;
  for (const auto& [number, rank] : attempt.ranks) {
    const bool given_up = rank.running && rank.script.unkillable && attempt.kill_at &&
                          queue_.clock().Now() >= *attempt.kill_at;
    if (given_up) {
      unkillable.push_back(fmt::format("rank {}", number));
    } else if (!rank.ended || (truth_.Rank(id, number).end && !rank.log_closed)) {
      return;
    }
  }
  Finish(id, attempt, std::move(unkillable));
}

void FakeHost::Finish(const AttemptId& id, Attempt& attempt, std::vector<std::string> unkillable) {
  attempt.stopped = true;
  ShimRecord record;
  record.mutable_stopped();
  for (std::string& text : unkillable) record.mutable_stopped()->add_unkillable(std::move(text));
  // Files are closed before the end, whoever still holds them.
  for (auto& [number, rank] : attempt.ranks) {
    if (!rank.running || std::exchange(rank.log_closed, true)) continue;
    ShimRecord closed;
    closed.mutable_log_closed()->set_rank(number);
    closed.mutable_log_closed()->set_size(rank.log.size());
    Record(id, attempt, closed);
  }
  Record(id, attempt, record);
}

// --- Commands ---

void FakeHost::Stop(const AttemptId& id, Duration grace) {
  Attempt* const attempt = Live(id);
  if (attempt != nullptr) StopRanks(id, *attempt, grace);
}

void FakeHost::StopRanks(const AttemptId& id, Attempt& attempt, Duration grace) {
  if (attempt.stopped || attempt.prepare_failed) return;
  const TimePoint kill_at = queue_.clock().Now() + grace;
  if (!std::exchange(attempt.stopping, true)) {
    if (!attempt.run) {
      Finish(id, attempt, {});
      return;
    }
    for (const auto& [number, rank] : attempt.ranks) {
      if (rank.script.deaf || rank.script.unkillable) continue;
      After(id, random_.Between(milliseconds(1), milliseconds(200)),
            [this, id, number = number](Attempt& later) {
              if (!later.ranks.at(number).running) return;
              EndRank(id, later, number, {.signal = kSigTerm});
            });
    }
  }
  if (attempt.kill_at && *attempt.kill_at <= kill_at) return;
  attempt.kill_at = kill_at;
  After(id, grace, [this, id, kill_at](Attempt& later) {
    if (later.kill_at == kill_at) KillRanks(id, later);
  });
}

void FakeHost::KillRanks(const AttemptId& id, Attempt& attempt) {
  for (auto& [number, rank] : attempt.ranks) {
    if (!rank.running) continue;
    if (rank.script.unkillable) {
      DieLate(id, number, rank);
    } else {
      EndRank(id, attempt, number, {.signal = kSigKill});
    }
  }
  CheckDone(id, attempt);
}

void FakeHost::DieLate(const AttemptId& id, uint32_t number, Rank& rank) {
  if (std::exchange(rank.dying, true)) return;
  queue_.Add(random_.Between(milliseconds(100), milliseconds(60'000)),
             [this, id, number, boot = boot_] {
               const auto found = attempts_.find(id);
               if (found == attempts_.end() || boot != boot_) return;
               Rank& late = found->second.ranks.at(number);
               if (!late.running) return;
               late.running = false;
               truth_.Ended(id, number, std::nullopt);
               ExitIfDone(id, found->second);
             });
}

// A shim that was told to exit stays while something lives that it could not kill.
void FakeHost::ExitIfDone(const AttemptId& id, Attempt& attempt) {
  if (!attempt.alive || !attempt.quit_told) return;
  for (const auto& [number, rank] : attempt.ranks) {
    if (rank.running) return;
  }
  attempt.alive = false;
  if (listener_) listener_(id);
}

void FakeHost::Signal(const AttemptId& id, int signal, const std::vector<uint32_t>& ranks) {
  Attempt* const attempt = Live(id);
  if (attempt == nullptr) return;
  for (auto& [number, rank] : attempt->ranks) {
    const bool meant =
        ranks.empty() || std::find(ranks.begin(), ranks.end(), number) != ranks.end();
    if (meant && rank.running && !rank.script.deaf && !rank.script.unkillable) {
      EndRank(id, *attempt, number, {.signal = signal});
    }
  }
}

void FakeHost::Renew(const AttemptId& id, Duration lease) {
  Attempt* const attempt = Live(id);
  if (attempt == nullptr || !attempt->lease_until) return;
  attempt->lease_until = queue_.clock().Now() + lease;
}

void FakeHost::WatchLease(const AttemptId& id) {
  const Duration left = *attempts_.at(id).lease_until - queue_.clock().Now();
  After(id, left, [this, id](Attempt& attempt) {
    if (attempt.stopped || attempt.prepare_failed || attempt.stopping) return;
    if (queue_.clock().Now() < *attempt.lease_until) {
      WatchLease(id);
      return;
    }
    ShimRecord record;
    record.mutable_self_stop()->set_reason("the coordinator was gone for too long");
    Record(id, attempt, record);
    StopRanks(id, attempt, milliseconds(attempt.bootstrap.grace_ms()));
  });
}

void FakeHost::Committed(const AttemptId& id, uint32_t rank, uint64_t bytes) {
  const auto found = attempts_.find(id);
  if (found == attempts_.end()) return;
  Rank& file = found->second.ranks.at(rank);
  if (bytes > file.log.size()) {
    truth_.Violation(fmt::format("{} rank {}: {} bytes committed of {}", Truth::Name(id), rank,
                                 bytes, file.log.size()));
  }
  file.punched = std::max(file.punched, bytes);
}

void FakeHost::Quit(const AttemptId& id) {
  Attempt* const attempt = Live(id);
  if (attempt == nullptr || (!attempt->stopped && !attempt->prepare_failed)) return;
  attempt->quit_told = true;
  ExitIfDone(id, *attempt);
}

Launcher::SweepResult FakeHost::Sweep(const AttemptId& id) {
  Launcher::SweepResult result;
  const auto found = attempts_.find(id);
  if (found == attempts_.end()) return result;
  Attempt& attempt = found->second;
  attempt.alive = false;
  for (auto& [number, rank] : attempt.ranks) {
    if (rank.running && rank.script.unkillable) {
      result.unkillable.push_back(fmt::format("rank {}", number));
      DieLate(id, number, rank);
    } else if (rank.running) {
      rank.running = false;
      ++result.killed;
      truth_.Ended(id, number, RankEnd{.signal = kSigKill});
    }
    result.logs.push_back({number, rank.log.size()});
  }
  return result;
}

void FakeHost::Release(const AttemptId& id) {
  const auto found = attempts_.find(id);
  if (found == attempts_.end()) return;
  for (const auto& [number, rank] : found->second.ranks) {
    if (!rank.running) continue;
    truth_.Violation(fmt::format("{} is released while rank {} runs", Truth::Name(id), number));
  }
  attempts_.erase(found);
}

// --- Faults ---

void FakeHost::CrashShim(const AttemptId& id) {
  Attempt* const attempt = Live(id);
  if (attempt == nullptr) return;
  attempt->alive = false;
  truth_.Note(fmt::format("{} shim {} crashes", node_, Truth::Name(id)));
  if (listener_) listener_(id);
}

void FakeHost::Reboot() {
  ++boot_;
  for (auto& [id, attempt] : attempts_) {
    attempt.alive = false;
    for (auto& [number, rank] : attempt.ranks) {
      if (!rank.running) continue;
      rank.running = false;
      truth_.Ended(id, number, std::nullopt);
    }
  }
}

void FakeHost::Wipe() { attempts_.clear(); }

}  // namespace muster::testing
