// One attempt's shim as its agent follows it: starts it or finds it again, hands on its records in
// order, repeats to every new connection what it was told, and notices its end. Lives on the loop
// thread; owned by shared_ptr. Never blocks, never decides what should happen to an attempt, and
// calls its owner from later turns of the loop only.
//
//   Launch, Begin -> spawned --socket listens--> connected <-> reconnecting --process ended-->
//   records left on disk -> gone Adopt  -> lock held: connected ...;  lock free: records left on
//   disk -> gone
//
// Whether a shim lives is decided by the end of its process (a pidfd) or by the lock of the
// directory, never by a process number or by a connection.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/supervise/attempt_directory.h"
#include "agent/supervise/shim_connection.h"
#include "agent/supervise/shim_process.h"
#include "common/io/event_loop.h"
#include "muster/internal/shim.pb.h"

namespace muster {

class ShimFollower : public std::enable_shared_from_this<ShimFollower> {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnShimRecord(ShimFollower& shim, const internal::ShimRecord& record) = 0;
    // Log files of these ranks have grown.
    virtual void OnLogsGrew(ShimFollower& shim, const internal::ShimLogsGrew& grew) = 0;
    // Nothing of this shim comes any more.
    virtual void OnShimGone(ShimFollower& shim, const std::string& reason) = 0;
  };

  // `stop_limit`: see ShimLauncherOptions.
  ShimFollower(EventLoop& loop, ChildReaper& reaper, Owner& owner, AttemptId id,
               std::chrono::milliseconds stop_limit)
      : loop_(loop), reaper_(reaper), owner_(&owner), id_(std::move(id)), stop_limit_(stop_limit) {}
  ~ShimFollower();
  ShimFollower(const ShimFollower&) = delete;
  ShimFollower& operator=(const ShimFollower&) = delete;

  const AttemptId& id() const { return id_; }
  // Starts a shim in `directory`, whose lock must be free, and follows it from record 1. It does
  // nothing before Begin.
  void Launch(AttemptDirectory directory, const ShimCommand& command);
  // Tells the shim that Launch has started what it is to do.
  void Begin(const internal::ShimBootstrap& bootstrap);
  // Process number of the shim that Launch has started; 0 when it did not start, or has ended.
  pid_t pid() const { return child_ ? pid_ : 0; }
  // Follows what is in `directory` from record `next_index` on.
  void Adopt(AttemptDirectory directory, uint64_t next_index);
  // Reports that nothing could be started or found.
  void Fail(std::string reason);

  // Requests. Run, Stop, Committed and Quit are kept for the connections to come.
  void Run(internal::ShimRun run);
  // `reason`: see ShimStop.
  void Stop(std::chrono::milliseconds grace, const std::string& reason = {});
  void Signal(int signal, const std::vector<uint32_t>& ranks);
  void Renew(std::chrono::milliseconds lease);
  void Committed(uint32_t rank, uint64_t bytes);
  void Quit();

  // SIGKILLs the shim as soon as its process is known, if it lives.
  void Kill();
  // The owner hears nothing any more.
  void Detach() { owner_ = nullptr; }
  // Lets go of the loop, which is about to end: nothing happens any more. The shim stays as it is.
  void Shut();
  bool detached() const { return owner_ == nullptr; }
  // Runs `task` in a later turn once the process is known to have ended, or after `limit`; `dead`
  // tells which.
  void WhenDead(std::chrono::milliseconds limit, std::function<void(bool dead)> task);

  bool dead() const { return dead_; }
  // True when the shim delivered its last record.
  bool finished() const { return finished_; }
  // The directory; none after Fail.
  AttemptDirectory* directory() { return directory_ ? &*directory_ : nullptr; }

 private:
  void Wake(std::chrono::milliseconds delay);
  void Probe();
  void FindProcess();
  void WatchAdopted(UniqueFd pidfd);
  void OnChildEnded(int status);
  void Connect();
  void Disconnect();
  void OnDisconnected();
  void OnRecord(const internal::ShimRecord& record);
  void OnDead(std::string reason);
  void WriteBootstrap();
  void OnReadyPipe();
  void CloseBootstrap();
  void CloseReady();
  void Send(const internal::ShimRequest& request);
  void SendState();
  void SendStop();
  void SendCommitted();
  std::string ErrorText() const;

  EventLoop& loop_;
  ChildReaper& reaper_;
  Owner* owner_;
  const AttemptId id_;
  const std::chrono::milliseconds stop_limit_;
  std::optional<AttemptDirectory> directory_;
  uint64_t next_index_ = 1;

  // The process. A child is reaped by the reaper, which then says so; others are watched here.
  bool child_ = false;
  // Why it was given up, see Fail.
  std::string failure_;
  pid_t pid_ = 0;
  UniqueFd pidfd_;
  bool kill_wanted_ = false;
  bool dead_ = false;
  bool finished_ = false;
  std::vector<std::function<void(bool)>> when_dead_;

  // Its start.
  std::string bootstrap_;
  size_t bootstrap_sent_ = 0;
  UniqueFd bootstrap_pipe_;
  UniqueFd ready_pipe_;

  // The connection, and what is told on each.
  std::unique_ptr<ShimConnection> connection_;
  std::optional<internal::ShimRun> run_;
  std::optional<std::chrono::milliseconds> stop_grace_;
  std::string stop_reason_;
  std::map<uint32_t, uint64_t> committed_;
  std::map<uint32_t, uint64_t> committed_news_;
  bool quit_ = false;
  bool shut_ = false;

  Executor::TimerId probe_timer_ = 0;
  Executor::TimerId committed_timer_ = 0;
  // A shim that was told to stop its ranks and does not, because it is stopped itself or stuck, is
  // killed; its owner then sweeps what it leaves.
  Executor::TimerId deaf_timer_ = 0;
  std::chrono::milliseconds probe_delay_{0};
};

}  // namespace muster
