// Plays the agent for one real muster-shim process in a folder of its own: starts it, talks to it,
// reads what it has written. Kills what it has started when it is destroyed. Every wait has a
// deadline. For tests.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/io/log_frame.h"
#include "common/io/unique_fd.h"
#include "muster/internal/shim.pb.h"

namespace muster::testing {

// A folder that is removed, with everything in it, at the end.
class AttemptFolder {
 public:
  AttemptFolder();
  ~AttemptFolder();
  AttemptFolder(const AttemptFolder&) = delete;
  AttemptFolder& operator=(const AttemptFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A rank's log, decoded.
struct DecodedLog {
  std::string stdout_bytes;
  std::string stderr_bytes;
  // Both streams in the order of the frames.
  std::string both;
  // Of gaps and holes.
  FrameGap gaps;
  int gap_count = 0;
  int hole_count = 0;
  // Length of `both` where the last hole was met.
  size_t before_last_hole = 0;
  int frame_count = 0;
  std::optional<FrameEnd> end;
  bool corrupt = false;
  // Bytes of a cut frame at the end.
  size_t cut_bytes = 0;
};
DecodedLog ReadLogFile(const std::string& path);

// The program of that name beside the running one.
std::string ProgramPath(const std::string& name);
// True while a process with that pid exists and is not a zombie.
bool IsAlive(pid_t pid);
// Numbers, one a line.
std::vector<pid_t> ReadPids(const std::string& path);
// Number of living processes that were started with `text` in their environment.
int CountProcessesWith(const std::string& text);
// Tries `condition` every few milliseconds until it is true; false when it is not in time.
bool Eventually(const std::function<bool()>& condition, double seconds = 10);

class ShimClient {
 public:
  // `shared`: folder of the leases, usually that of a test with several shims.
  ShimClient(const std::string& folder, const std::string& name, const std::string& lease_folder);
  ~ShimClient();
  ShimClient(const ShimClient&) = delete;
  ShimClient& operator=(const ShimClient&) = delete;

  // To be completed before Start.
  internal::ShimBootstrap bootstrap;
  // Limit of file sizes of the shim; 0: none.
  rlim_t file_size_limit = 0;

  // Adds a rank that executes rank_probe with `steps`. Rank and slot number are its position.
  internal::ShimRank& AddProbe(const std::vector<std::string>& steps);
  // Adds a rank with an argv of its own.
  internal::ShimRank& AddRank(const std::vector<std::string>& argv);

  // Starts the shim and waits until its socket listens or it has ended.
  void Start();
  // Connects as an agent that wants records from `next_index` on. Forgets the connection it had.
  bool Connect(uint64_t next_index = 1);
  void Disconnect() { socket_.Reset(); }
  // Start, Connect, and wait for the answer; true when it is `prepared`.
  bool StartAndPrepare();

  void Send(const internal::ShimRequest& request);
  void Run(const std::vector<std::string>& env = {});
  void Stop(int grace_ms, const std::string& reason = {});
  void Signal(int signal, const std::vector<uint32_t>& ranks = {});
  void Renew(int lease_ms);
  void Commit(uint32_t rank, uint64_t size);
  void Quit();

  // Receives records until one fulfils `wanted` (those received before count too); null at the
  // deadline.
  const internal::ShimRecord* WaitFor(
      const std::function<bool(const internal::ShimRecord&)>& wanted, double seconds = 20);
  // Waits for a record of one kind.
  const internal::ShimRankStarted* WaitStarted(uint32_t rank, double seconds = 20);
  const internal::ShimRankExited* WaitExited(uint32_t rank, double seconds = 20);
  const internal::ShimLogClosed* WaitLogClosed(uint32_t rank, double seconds = 20);
  const internal::ShimStopped* WaitStopped(double seconds = 20);
  // Receives what is there now.
  void ReceiveAll();
  const std::vector<internal::ShimRecord>& records() const { return records_; }

  // Waits for the end of the shim; its exit status, 128 + n for a signal, -1 when it does not end
  // in time.
  int WaitExit(double seconds = 20);
  // Run to the end of an attempt: start, prepare, run, stopped, quit, exit. False when any step
  // fails.
  bool RunToEnd(double seconds = 60);

  pid_t pid() const { return pid_; }
  const std::string& directory() const { return directory_; }
  std::string LogPath(uint32_t rank) const;
  DecodedLog Log(uint32_t rank) const { return ReadLogFile(LogPath(rank)); }
  // Problems of the last `prepare_failed`, one a line.
  std::string Problems() const;

 private:
  bool ReceiveOne(int timeout_ms);

  std::string directory_;
  pid_t pid_ = -1;
  bool exited_ = false;
  int status_ = 0;
  UniqueFd socket_;
  std::vector<internal::ShimRecord> records_;
};

}  // namespace muster::testing
