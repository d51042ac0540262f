// One rank: its process, its two pipes, its log file and its cgroup. Adds what happens to it to the
// journal; decides nothing. Lives on the shim's only thread.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/shim/exec_image.h"
#include "agent/shim/log_growth.h"
#include "agent/shim/oom_watch.h"
#include "agent/shim/poller.h"
#include "agent/shim/process_setup.h"
#include "agent/shim/rank_cgroup.h"
#include "agent/shim/rank_log.h"
#include "agent/shim/record_journal.h"
#include "agent/shim/spawn.h"
#include "common/io/unique_fd.h"
#include "muster/internal/shim.pb.h"

namespace muster::shim {

// What all ranks of the shim share. Must outlive them.
struct RankEnvironment {
  Poller* poller = nullptr;
  RecordJournal* journal = nullptr;
  LogGrowth* growth = nullptr;
  Inherited inherited;
  OomWatch oom_watch;
  std::string working_directory;
  // Nothing: ranks run as the shim.
  std::optional<UserIds> user;
  // What is wrong with the card in a slot, in words; empty: nothing. Not set: slots are no cards.
  std::function<std::string(uint32_t slot)> card_problem;
  // Capacity wanted for each pipe.
  int pipe_bytes = 1 << 20;
  // Read buffer, one for all. Large: each read lets a rank that floods go on once, and so the fewer
  // of its writes have to wait. No larger than a pipe: then the ranks would wait longer for no
  // gain.
  std::unique_ptr<char[]> buffer;
  static constexpr size_t kBufferBytes = size_t{512} << 10;
};

// Capacity of pipes that leaves a user with `ranks` ranks enough of what the kernel grants one
// user.
int PipeBytesFor(size_t ranks);

class RankProcess {
 public:
  RankProcess(RankEnvironment& environment, internal::ShimRank spec);
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  uint32_t number() const { return spec_.rank(); }
  uint32_t slot() const { return spec_.slot(); }
  // -1 before the start and when the start failed. Stays after the end.
  pid_t pid() const { return pid_; }
  // The process was started and has not been reaped.
  bool alive() const { return pid_ > 0 && !reaped_; }
  // An exit was recorded.
  bool ended() const { return ended_; }
  bool log_closed() const { return log_closed_; }
  RankLog& log() { return log_; }
  RankCgroup& cgroup() { return cgroup_; }

  // Test hook: no end of this rank is ever recorded.
  void NeverBelieveEnd() { end_is_believed_ = false; }
  bool end_is_believed() const { return end_is_believed_; }
  // Path for execve, from CheckExec.
  void SetPath(std::string path) { path_ = std::move(path); }

  // Where output goes.
  void SetLog(std::string path, uint64_t quota_bytes);
  // Makes the cgroup; without a usable one the rank runs in the shim's.
  void CreateCgroup(const std::string& parent) { (void)cgroup_.Create(parent, number()); }

  // Starts the process with `added` in its environment. A failure is recorded as the rank's end.
  void Start(const Strings& added);
  // Reads how execve went, when that is known, and records a start.
  void TakeExecStatus();
  // Notes how the process, just reaped, ended.
  void OnReaped(const siginfo_t& info);
  // The process was reaped; how the rank ended is told later, with RecordEnd.
  void OnReapedUndecided() { reaped_ = true; }
  // Records an end.
  void RecordEnd(internal::ShimRankExited exited);
  // Name of the container that the process is the client of; empty: it is none.
  const std::string& container() const { return spec_.container(); }
  // What that client has written to its stderr last; only for clients.
  std::string LastWordsOfClient();
  bool start_failed() const { return failure_.has_value(); }
  // SIGKILL was sent by the shim.
  bool was_killed() const { return killed_; }

  // Sends a signal to the rank process only. Ignored when it is not alive.
  void Signal(int signal);
  // SIGTERM once, and SIGCONT, so that a stopped process can hear it.
  void Terminate();
  void Kill();

  // Reads what the pipes hold, up to a bound that a writer cannot move, then closes them and the
  // log.
  void CloseLog();
  // True when a process other than the rank may hold its pipes open.
  bool OutputOutlivesIt() const { return ended_ && !log_closed_; }
  // For that case: since when no descendant of the rank is left.
  std::optional<SteadyTime> no_descendant_since;

 private:
  void RecordStartFailure(const SpawnFailure& failure);
  std::string DescribeFailure(const SpawnFailure& failure) const;
  void WatchOutput(UniqueFd& fd, FrameKind stream);
  void OnOutput(UniqueFd& fd, FrameKind stream);
  bool ReadOnce(UniqueFd& fd, FrameKind stream, size_t max_bytes, size_t& count);
  void CloseStream(UniqueFd& fd);
  void CloseLogWhenComplete();

  RankEnvironment& environment_;
  internal::ShimRank spec_;
  std::string path_;
  // Of argv and environment, for a message; both are given up at the start.
  std::string largest_string_;
  pid_t pid_ = -1;
  bool reaped_ = false;
  bool ended_ = false;
  bool log_closed_ = false;
  bool end_is_believed_ = true;
  bool terminated_ = false;
  // SIGKILL was sent by the shim.
  bool killed_ = false;
  std::optional<SpawnFailure> failure_;
  UniqueFd stdout_;
  UniqueFd stderr_;
  UniqueFd exec_status_;
  RankLog log_;
  // The end of what a client of an engine wrote to its stderr.
  std::string said_;
  RankCgroup cgroup_;
};

}  // namespace muster::shim
