#include "agent/shim/containers.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "agent/shim/text.h"

namespace muster::shim {
namespace {

constexpr std::chrono::seconds kImageLimit{20};
constexpr std::chrono::seconds kAskLimit{5};
constexpr std::chrono::seconds kRemoveLimit{10};
constexpr std::chrono::minutes kMissingLimit{10};
constexpr milliseconds kRetry{500};
constexpr milliseconds kSecondLook{300};
constexpr char kStateFormat[] =
    "{{.State.Running}}|{{.State.ExitCode}}|{{.State.OOMKilled}}|{{.State.StartedAt}}";
// Of the engine's client: the engine failed; the program could not be, or was not there to be,
// executed.
constexpr int kEngineFailed = 125;
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;

SteadyTime Now() { return std::chrono::steady_clock::now(); }

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string NotStarted(const std::string& engine, int code) {
  return engine + " did not start the container and ended with " + std::to_string(code) + ": ";
}

std::string Said(const std::string& engine, const std::string& said) {
  return said.empty() ? "; " + engine + " gave no reason" : "; " + engine + " said: " + said;
}

}  // namespace

bool IsDoubtful(const siginfo_t& info) {
  if (info.si_code != CLD_EXITED) return true;
  // 1: also of a client that lost its daemon. 137: the container's, killed, perhaps for memory.
  for (const int code : {1, kEngineFailed, kNotExecutable, kNotFound, 128 + SIGKILL}) {
    if (info.si_status == code) return true;
  }
  return false;
}

internal::ShimRankExited EndOfClient(uint32_t rank, const std::string& engine,
                                     const siginfo_t& info, const ContainerState& state,
                                     const std::string& said) {
  internal::ShimRankExited exited;
  exited.set_rank(rank);
  const bool by_signal = info.si_code != CLD_EXITED;
  const int code = by_signal ? 0 : info.si_status;
  const auto fail = [&](int error_number, const char* step, const std::string& message) {
    exited.set_kind(internal::ShimRankExited::EXEC_FAILED);
    exited.set_value(error_number);
    exited.set_step(step);
    exited.set_message(message);
  };
  exited.set_kind(by_signal ? internal::ShimRankExited::SIGNAL : internal::ShimRankExited::CODE);
  exited.set_value(info.si_status);
  if (by_signal) exited.set_core_dumped(info.si_code == CLD_DUMPED);
  if (state.known && state.exists && state.running) {
    if (!by_signal) {
      fail(EIO, "engine",
           engine + " run ended with code " + std::to_string(code) +
               " while its container ran, which was then killed: it has no exit code of its own" +
               Said(engine, said));
    }
  } else if (state.known && state.exists && state.started) {
    exited.set_kind(internal::ShimRankExited::CODE);
    exited.set_value(state.exit_code);
    exited.set_core_dumped(false);
    exited.set_oom_killed(state.oom_killed);
  } else if (code == kEngineFailed) {
    fail(EIO, "engine",
         NotStarted(engine, code) + "the engine failed, or refused an option" + Said(engine, said) +
             " (try \"" + engine + " info\" on that node, and look at container.options)");
  } else if (state.known && code == kNotExecutable) {
    fail(EACCES, "container",
         NotStarted(engine, code) + "the program in the image cannot be executed" +
             Said(engine, said) +
             " (it must be a program that the user of the job may execute in the image; a runtime "
             "that fails ends so, too)");
  } else if (state.known && code == kNotFound) {
    fail(ENOENT, "container",
         NotStarted(engine, code) + "the program is not in the image" + Said(engine, said) +
             " (it is one of the image, not of the node; a runtime or a mount that is missing ends "
             "so, too)");
  }
  return exited;
}

std::map<std::string, std::string> ParseContainers(const std::string& text) {
  std::map<std::string, std::string> found;
  for (const std::string_view line : Split(text, '\n')) {
    const size_t blank = line.find(' ');
    if (blank == 0 || line.empty()) continue;
    const std::string_view name =
        blank == std::string_view::npos ? std::string_view() : line.substr(blank + 1);
    found.emplace(line.substr(0, blank), name);
  }
  return found;
}

ContainerState ParseContainerState(const std::string& text) {
  ContainerState state;
  const std::vector<std::string_view> parts =
      Split(std::string_view(text).substr(0, text.find('\n')), '|');
  if (parts.size() != 4 || (parts[0] != "true" && parts[0] != "false")) return state;
  const std::from_chars_result number =
      std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), state.exit_code);
  if (number.ec != std::errc() || number.ptr != parts[1].data() + parts[1].size()) return state;
  state.running = parts[0] == "true";
  state.oom_killed = parts[2] == "true";
  // The zero of Go's clock: never.
  state.started = !parts[3].starts_with("0001-") && !parts[3].empty();
  state.exists = true;
  state.known = true;
  return state;
}

std::string AttemptNameOf(const internal::ShimBootstrap& bootstrap) {
  return bootstrap.node_id() + "." + bootstrap.job_id() + "." + std::to_string(bootstrap.attempt());
}

void Containers::Configure(const internal::ShimBootstrap& bootstrap) {
  if (!bootstrap.has_engine()) return;
  used_ = true;
  const internal::ShimEngine& engine = bootstrap.engine();
  name_ = engine.name();
  image_ = engine.image();
  missing_limit_ = engine.missing_limit_ms() != 0 ? milliseconds(engine.missing_limit_ms())
                                                  : milliseconds(kMissingLimit);
  labels_.assign(engine.labels().begin(), engine.labels().end());
  std::optional<UserIds> user;
  if (bootstrap.has_run_as()) user = UserIdsOf(bootstrap.run_as());
  runner_.Configure(engine, std::move(user));
}

void Containers::CheckImage(std::function<void(std::string)> done) {
  if (!used_ || image_.empty()) return done("");
  runner_.Run({"image", "inspect", "--format", "{{.Id}}", image_}, kImageLimit,
              [this, done = std::move(done)](const EngineRunner::Result& result) {
                if (result.ok) return done("");
                done("the image " + Quoted(image_) + " is not there, or " + name_ +
                     " cannot tell (" + result.problem + "); nothing is pulled at a start: run \"" +
                     name_ + " pull " + Printable(image_) + "\" on this node");
              });
}

void Containers::List(std::function<void(const std::string&, const Found&)> done) {
  std::vector<std::string> words = {"ps", "-a", "--no-trunc", "--format", "{{.ID}} {{.Names}}"};
  for (const std::string& label : labels_) {
    words.emplace_back("--filter");
    words.push_back("label=" + label);
  }
  runner_.Run(words, kAskLimit, [this, done = std::move(done)](const EngineRunner::Result& result) {
    if (!result.missing) {
      missing_since_.reset();
    } else if (!missing_since_) {
      missing_since_ = Now();
    }
    done(result.problem, result.ok ? ParseContainers(result.out) : Found());
  });
}

void Containers::Ask(const std::string& container,
                     std::function<void(const ContainerState&)> done) {
  List([this, container, done = std::move(done)](const std::string& problem, const Found& found) {
    const auto one = std::find_if(found.begin(), found.end(),
                                  [&](const auto& entry) { return entry.second == container; });
    if (!problem.empty() || one == found.end()) {
      ContainerState state;
      state.known = problem.empty();
      if (!state.known) Complain("how " + container + " ended is not known: " + problem);
      return done(state);
    }
    runner_.Run({"container", "inspect", "--format", kStateFormat, one->first}, kAskLimit,
                [this, id = one->first, done](const EngineRunner::Result& result) {
                  const ContainerState state =
                      result.ok ? ParseContainerState(result.out) : ContainerState();
                  if (state.running) {
                    ++killed_;
                    runner_.Run({"kill", "--signal=KILL", id}, kAskLimit,
                                [](const EngineRunner::Result&) {});
                  }
                  done(state);
                });
  });
}

void Containers::BeginRemoval(bool again) {
  if (gone_) return;
  clean_looks_wanted_ = std::max(clean_looks_wanted_, again ? 2 : 1);
  if (removing_) return;
  removing_ = true;
  Look();
}

void Containers::Look() {
  next_look_.reset();
  List([this](const std::string& problem, const Found& found) {
    if (!problem.empty()) return LookLater(kRetry, problem);
    found_ = found;
    if (!found.empty()) return Remove(found);
    problem_.clear();
    if (--clean_looks_wanted_ > 0) return LookLater(kSecondLook, "");
    removing_ = false;
    gone_ = true;
  });
}

// Kill and rm in two steps: rm alone would wait for a container that ignores SIGTERM.
void Containers::Remove(const Found& found) {
  std::vector<std::string> kill = {"kill", "--signal=KILL"};
  std::vector<std::string> remove = {"rm", "-f"};
  for (const auto& [id, name] : found) {
    kill.push_back(id);
    remove.push_back(id);
  }
  // Fails for those that do not run; the others are named in its output, one a line.
  runner_.Run(kill, kRemoveLimit, [this, remove](const EngineRunner::Result& stopped) {
    killed_ += static_cast<uint32_t>(std::count(stopped.out.begin(), stopped.out.end(), '\n'));
    runner_.Run(remove, kRemoveLimit, [this](const EngineRunner::Result& result) {
      if (result.ok) return LookLater(milliseconds(0), "");
      LookLater(kRetry, result.problem);
    });
  });
}

void Containers::LookLater(milliseconds delay, std::string problem) {
  if (!problem.empty() && problem != problem_) Complain(problem);
  problem_ = std::move(problem);
  next_look_ = Now() + delay;
}

std::vector<std::string> Containers::Remaining() const {
  std::vector<std::string> texts;
  if (gone_) return texts;
  const std::string reason = problem_.empty() ? "" : ": " + problem_;
  for (const auto& [id, name] : found_) {
    texts.push_back(name_ + " container " + Printable(name) + " could not be removed" + reason);
  }
  if (texts.empty()) texts.push_back(name_ + " does not say which containers are left" + reason);
  return texts;
}

void Containers::OnTime(SteadyTime now) {
  runner_.OnTime(now);
  if (next_look_ && now >= *next_look_) Look();
}

std::optional<SteadyTime> Containers::deadline() const {
  const std::optional<SteadyTime> call = runner_.deadline();
  if (!call || !next_look_) return call ? call : next_look_;
  return std::min(*call, *next_look_);
}

}  // namespace muster::shim
