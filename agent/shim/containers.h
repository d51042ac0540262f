// The containers of an attempt, as the engine knows them: is the image there, how did a container
// end, and the removal of every one, however it came to be left behind. A container is known by the
// labels of the attempt, never by its name alone, which could be another's. Lives on the shim's
// only thread and never blocks; asks again by itself until nothing is left.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/shim/engine_runner.h"
#include "agent/shim/poller.h"
#include "muster/internal/shim.pb.h"

namespace muster::shim {

// What the engine says of one container.
struct ContainerState {
  // The engine has answered; else nothing below means anything.
  bool known = false;
  bool exists = false;
  // Its program was executed.
  bool started = false;
  bool running = false;
  int exit_code = 0;
  bool oom_killed = false;
};

// How a rank ended whose process, the engine's client, has ended: `info` is of waitid. The code of
// the container where there is one, that of the client where that must be the same, and a failure
// to start where the engine has not started anything, told with `said`, the client's last words.
// The step of such a failure is "engine" when it is the engine's own (its 125), else "container".
// Pure.
internal::ShimRankExited EndOfClient(uint32_t rank, const std::string& engine,
                                     const siginfo_t& info, const ContainerState& state,
                                     const std::string& said);

// True when such an end does not tell how the container ended. Pure.
bool IsDoubtful(const siginfo_t& info);

// The lines of `ps`: id and name. Pure.
std::map<std::string, std::string> ParseContainers(const std::string& text);

// What `inspect` printed in the format that is asked for here. Not known when it is something else.
ContainerState ParseContainerState(const std::string& text);

// What an attempt is called in the marks of slots that it withholds. Pure.
std::string AttemptNameOf(const internal::ShimBootstrap& bootstrap);

class Containers {
 public:
  explicit Containers(Poller& poller) : runner_(poller) {}

  // Without an engine in the bootstrap everything else does nothing.
  void Configure(const internal::ShimBootstrap& bootstrap);
  bool used() const { return used_; }
  const std::string& engine() const { return name_; }

  // Looks whether the image is there. `done` gets what is wrong; empty: nothing. Once.
  void CheckImage(std::function<void(std::string problem)> done);
  // Asks how the container of this name is. One that still runs, without its client, is killed.
  void Ask(const std::string& container, std::function<void(const ContainerState&)> done);
  // From now on there may be containers.
  void NoteStart() { gone_ = !used_; }
  // Kills and removes until there is none. With `again` the engine must say so twice, some time
  // apart: a client that was killed may have asked for a container that comes into being only now.
  void BeginRemoval(bool again);
  // No container was ever started, or all were removed.
  bool gone() const { return gone_; }
  // The engine's program has been missing for so long that nobody should wait for it any more.
  bool given_up(SteadyTime now) const {
    return removing_ && missing_since_ && now - *missing_since_ >= missing_limit_;
  }
  // How many were removed that still ran.
  uint32_t killed() const { return killed_; }
  // What is left, in words.
  std::vector<std::string> Remaining() const;

  void OnReaped(const siginfo_t& info) { runner_.OnReaped(info); }
  void OnTime(SteadyTime now);
  std::optional<SteadyTime> deadline() const;
  std::set<pid_t> pids() const { return runner_.pids(); }
  void Abandon() { runner_.Abandon(); }

 private:
  // Id to name of every container of the attempt.
  using Found = std::map<std::string, std::string>;
  void List(std::function<void(const std::string& problem, const Found&)> done);
  void Look();
  void Remove(const Found& found);
  void LookLater(milliseconds delay, std::string problem);

  EngineRunner runner_;
  bool used_ = false;
  std::string name_;
  std::string image_;
  std::vector<std::string> labels_;
  bool gone_ = true;
  bool removing_ = false;
  int clean_looks_wanted_ = 0;
  std::optional<SteadyTime> next_look_;
  std::string problem_;
  // The program of the engine is not there, since then.
  std::optional<SteadyTime> missing_since_;
  milliseconds missing_limit_{0};
  Found found_;
  uint32_t killed_ = 0;
};

}  // namespace muster::shim
