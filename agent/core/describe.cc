#include "agent/core/describe.h"

#include <fmt/format.h>

#include "common/base/signal_names.h"

namespace muster {
namespace {

std::string DescribeStatus(const v1::ExitStatus& status) {
  std::string text;
  switch (status.outcome_case()) {
    case v1::ExitStatus::kExitCode:
      text = fmt::format("code={}", status.exit_code());
      break;
    case v1::ExitStatus::kSignal:
      text = fmt::format("signal={}", SignalName(status.signal()));
      break;
    case v1::ExitStatus::kExecFailure:
      text = fmt::format("step={} errno={}", status.exec_failure().step(),
                         status.exec_failure().error_number());
      break;
    case v1::ExitStatus::OUTCOME_NOT_SET:
      text = "status=unknown";
      break;
  }
  if (status.oom_killed()) text += " oom=true";
  if (status.core_dumped()) text += " core=true";
  return text;
}

}  // namespace

std::string Describe(const AttemptId& id) {
  return fmt::format("job={} attempt={}", id.job.value(), id.attempt);
}

std::string DescribeEvent(const v1::Event& event) {
  switch (event.body_case()) {
    case v1::Event::kPrepared:
      return "prepared";
    case v1::Event::kPrepareFailed:
      return fmt::format("prepare failed problems={}", event.prepare_failed().problems_size());
    case v1::Event::kRankStarted:
      return fmt::format("rank started rank={} pid={}", event.rank_started().rank(),
                         event.rank_started().pid());
    case v1::Event::kRankExited:
      return fmt::format("rank exited rank={} {}", event.rank_exited().rank(),
                         DescribeStatus(event.rank_exited().status()));
    case v1::Event::kRankLost:
      return fmt::format("rank lost rank={} reason=\"{}\"", event.rank_lost().rank(),
                         event.rank_lost().reason());
    case v1::Event::kRankLogClosed:
      return fmt::format("output complete rank={} bytes={} dropped={}",
                         event.rank_log_closed().rank(), event.rank_log_closed().size(),
                         event.rank_log_closed().dropped_bytes());
    case v1::Event::kAttemptStopped:
      return fmt::format("attempt stopped killed={} unkillable={} own_reason=\"{}\"",
                         event.attempt_stopped().killed_leftovers(),
                         event.attempt_stopped().unkillable_size(),
                         event.attempt_stopped().own_reason());
    case v1::Event::kRankStalled:
      return fmt::format("rank stalled rank={} silent_s={} detail=\"{}\"",
                         event.rank_stalled().rank(), event.rank_stalled().silent().seconds(),
                         event.rank_stalled().detail());
    case v1::Event::kRankResumed:
      return fmt::format("rank goes on rank={} silent_s={}", event.rank_resumed().rank(),
                         event.rank_resumed().silent().seconds());
    case v1::Event::kRendezvousProbed:
      return fmt::format("rendezvous probed addresses={}",
                         event.rendezvous_probed().addresses_size());
    case v1::Event::BODY_NOT_SET:
      break;
  }
  return "unknown event";
}

}  // namespace muster
