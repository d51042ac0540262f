#include "agent/supervise/systemd_scopes.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <map>
#include <utility>

#include "agent/supervise/cgroup.h"
#include "common/base/annotate.h"

namespace muster {
namespace {

using Deadline = std::chrono::steady_clock::time_point;
using std::chrono::microseconds;

// For the whole question. A node that waits longer starts its ranks without a scope.
constexpr std::chrono::seconds kLimit{2};

constexpr char kService[] = "org.freedesktop.systemd1";
constexpr char kObject[] = "/org/freedesktop/systemd1";
constexpr char kManager[] = "org.freedesktop.systemd1.Manager";

uint64_t MicrosecondsUntil(Deadline deadline) {
  const auto left =
      std::chrono::duration_cast<microseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<uint64_t>(std::max<int64_t>(left.count(), 0));
}

}  // namespace

// What is used of libsystemd. Loaded instead of linked: it brings six other libraries along, which
// no start of an agent should wait for.
class SystemdScopes::Library {
 public:
  static absl::StatusOr<std::unique_ptr<Library>> Load() {
    void* const handle = ::dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return absl::UnavailableError(::dlerror());
    auto library = std::make_unique<Library>();
    bool all = true;
    // It stays loaded.
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
      all = all && function != nullptr;
    };
    find(library->open, "sd_bus_open_system");
    find(library->close, "sd_bus_close");
    find(library->release, "sd_bus_unref");
    find(library->is_ready, "sd_bus_is_ready");
    find(library->set_timeout, "sd_bus_set_method_call_timeout");
    find(library->match, "sd_bus_match_signal");
    find(library->new_call, "sd_bus_message_new_method_call");
    find(library->append, "sd_bus_message_append");
    find(library->read, "sd_bus_message_read");
    find(library->unref, "sd_bus_message_unref");
    find(library->call, "sd_bus_call");
    find(library->process, "sd_bus_process");
    find(library->wait, "sd_bus_wait");
    find(library->free_error, "sd_bus_error_free");
    if (!all) return absl::UnavailableError("libsystemd.so.0 is older than version 240");
    return library;
  }

  decltype(&::sd_bus_open_system) open = nullptr;
  decltype(&::sd_bus_close) close = nullptr;
  decltype(&::sd_bus_unref) release = nullptr;
  decltype(&::sd_bus_is_ready) is_ready = nullptr;
  decltype(&::sd_bus_set_method_call_timeout) set_timeout = nullptr;
  decltype(&::sd_bus_match_signal) match = nullptr;
  decltype(&::sd_bus_message_new_method_call) new_call = nullptr;
  decltype(&::sd_bus_message_append) append = nullptr;
  decltype(&::sd_bus_message_read) read = nullptr;
  decltype(&::sd_bus_message_unref) unref = nullptr;
  decltype(&::sd_bus_call) call = nullptr;
  decltype(&::sd_bus_process) process = nullptr;
  decltype(&::sd_bus_wait) wait = nullptr;
  decltype(&::sd_bus_error_free) free_error = nullptr;

  // Starts the scope and waits until systemd has done so.
  absl::Status StartScope(const ScopeRequest& request, const std::string& slice);

 private:
  // Ends of jobs of systemd: its name for the job, and how it ended.
  struct Jobs {
    Library* library = nullptr;
    std::map<std::string, std::string> ended;
  };

  static int OnJobRemoved(sd_bus_message* message, void* jobs_data, sd_bus_error*);
  // Handles what has come, else waits for more.
  absl::Status Step(sd_bus* bus, Deadline deadline);
  absl::Status Connect(sd_bus* bus, Jobs* jobs, Deadline deadline);
  absl::StatusOr<std::string> Request(sd_bus* bus, const ScopeRequest& request,
                                      const std::string& slice, Deadline deadline);
  absl::Status Await(sd_bus* bus, const std::string& job, const Jobs& jobs, Deadline deadline);
};

int SystemdScopes::Library::OnJobRemoved(sd_bus_message* message, void* jobs_data, sd_bus_error*) {
  Jobs& jobs = *static_cast<Jobs*>(jobs_data);
  uint32_t number = 0;
  const char* job = nullptr;
  const char* unit = nullptr;
  const char* result = nullptr;
  // Another content than this is none of ours.
  if (jobs.library->read(message, "uoss", &number, &job, &unit, &result) > 0) {
    jobs.ended[job] = result;
  }
  return 0;
}

absl::Status SystemdScopes::Library::Step(sd_bus* bus, Deadline deadline) {
  int result = process(bus, nullptr);
  if (result == 0) {
    const uint64_t left = MicrosecondsUntil(deadline);
    if (left == 0) return absl::DeadlineExceededError("no answer in time");
    result = wait(bus, left);
  }
  return result < 0 && result != -EINTR ? ErrnoStatus(-result, "system bus") : absl::OkStatus();
}

absl::Status SystemdScopes::Library::Connect(sd_bus* bus, Jobs* jobs, Deadline deadline) {
  // Calls on a connection that is not ready would wait for that without regard to their limit.
  while (is_ready(bus) <= 0) {
    if (absl::Status status = Step(bus, deadline); !status.ok()) return status;
  }
  int result = set_timeout(bus, std::max<uint64_t>(MicrosecondsUntil(deadline), 1));
  if (result >= 0) {
    result = match(bus, nullptr, kService, kObject, kManager, "JobRemoved", OnJobRemoved, jobs);
  }
  return result < 0 ? ErrnoStatus(-result, "system bus") : absl::OkStatus();
}

// The name of the job that systemd starts the scope with.
absl::StatusOr<std::string> SystemdScopes::Library::Request(sd_bus* bus,
                                                            const ScopeRequest& request,
                                                            const std::string& slice,
                                                            Deadline deadline) {
  sd_bus_message* message = nullptr;
  sd_bus_message* reply = nullptr;
  sd_bus_error error = {};
  int result = new_call(bus, &message, kService, kObject, kManager, "StartTransientUnit");
  if (result >= 0) {
    // replace: a slice that is about to be stopped, because the last job ended, stays instead.
    // Delegate: the groups below are the agent's and the shim's, and systemd does not stop all
    // ranks because one was killed for want of memory. TasksMax: the default would be a limit that
    // nobody asked for. CollectMode: a scope that was killed is not kept for people to look at.
    result = append(message, "ssa(sv)a(sa(sv))", request.unit.c_str(), "replace", 6,  //
                    "Description", "s", request.description.c_str(),                  //
                    "Slice", "s", slice.c_str(),                                      //
                    "Delegate", "b", 1,                                               //
                    "TasksMax", "t", UINT64_MAX,                                      //
                    "CollectMode", "s", "inactive-or-failed",                         //
                    "PIDs", "au", 1, static_cast<uint32_t>(request.pid), 0);
  }
  if (result >= 0) {
    // 0 would stand for the default of sd-bus.
    result = call(bus, message, std::max<uint64_t>(MicrosecondsUntil(deadline), 1), &error, &reply);
  }
  const char* job = nullptr;
  if (result >= 0) result = read(reply, "o", &job);
  absl::StatusOr<std::string> answer = absl::UnavailableError("systemd: an empty answer");
  if (job != nullptr) {
    answer = job;
  } else if (error.message != nullptr) {
    answer = absl::UnavailableError(fmt::format("systemd: {}", error.message));
  } else if (result < 0) {
    answer = ErrnoStatus(-result, "systemd");
  }
  free_error(&error);
  unref(reply);
  unref(message);
  return answer;
}

absl::Status SystemdScopes::Library::Await(sd_bus* bus, const std::string& job, const Jobs& jobs,
                                           Deadline deadline) {
  while (true) {
    if (const auto it = jobs.ended.find(job); it != jobs.ended.end()) {
      if (it->second == "done") return absl::OkStatus();
      return absl::UnavailableError(fmt::format("systemd: the job is {}", it->second));
    }
    if (absl::Status status = Step(bus, deadline); !status.ok()) return status;
  }
}

absl::Status SystemdScopes::Library::StartScope(const ScopeRequest& request,
                                                const std::string& slice) {
  const Deadline deadline = std::chrono::steady_clock::now() + kLimit;
  sd_bus* bus = nullptr;
  if (const int result = open(&bus); result < 0) return ErrnoStatus(-result, "system bus");
  Jobs jobs{.library = this, .ended = {}};
  absl::Status status = Connect(bus, &jobs, deadline);
  if (status.ok()) {
    const absl::StatusOr<std::string> job = Request(bus, request, slice, deadline);
    status = job.ok() ? Await(bus, *job, jobs, deadline) : job.status();
  }
  // Not flushed, which could wait for ever: all that matters was answered.
  close(bus);
  release(bus);
  return status;
}

bool SystemdScopes::Wanted(const std::vector<std::string>& environment) {
  return ::geteuid() == 0 && ::access("/run/systemd/system", F_OK) == 0 &&
         IsStartedBySystemd(environment, ::getpid()) &&
         IsSystemService(CgroupOfProcess(::getpid()));
}

SystemdScopes::SystemdScopes(Executor& executor, std::string slice, std::string cgroup_root)
    : executor_(executor), slice_(std::move(slice)), cgroup_root_(std::move(cgroup_root)) {}

SystemdScopes::~SystemdScopes() { End(); }

void SystemdScopes::End() {
  ended_ = true;
  worker_.reset();
}

void SystemdScopes::Make(ScopeRequest request, Done done) {
  if (ended_) return;
  if (!worker_) worker_ = std::make_unique<WorkerThread>("scopes");
  worker_->Post([this, request = std::move(request), done = std::move(done),
                 wanted = std::chrono::steady_clock::now()]() mutable {
    if (ended_) return;
    executor_.Post([done = std::move(done), directory = Ask(request, wanted)]() mutable {
      done(std::move(directory));
    });
  });
}

std::string SystemdScopes::directory() const { return cgroup_root_ + SliceCgroup(slice_); }

absl::StatusOr<std::string> SystemdScopes::Ask(const ScopeRequest& request, Time wanted) {
  if (wanted < silent_) return absl::DeadlineExceededError("no answer to the one before");
  if (!library_) {
    absl::StatusOr<std::unique_ptr<Library>> library = Library::Load();
    if (!library.ok()) return library.status();
    library_ = *std::move(library);
  }
  const Time asked = std::chrono::steady_clock::now();
  const absl::Status started = library_->StartScope(request, slice_);
  const Time answered = std::chrono::steady_clock::now();
  if (!started.ok() && answered - asked > kLimit / 2) silent_ = answered;
  if (!started.ok()) return started;
  // Not taken for granted: ranks must not run in another group than that which is recorded.
  const std::string path = CgroupOfProcess(request.pid);
  if (!path.ends_with("/" + request.unit)) {
    return absl::UnavailableError(fmt::format("the shim is in '{}' afterwards", path));
  }
  return cgroup_root_ + path;
}

}  // namespace muster
