// Puts a job together from what was read; the part that job.yaml and flags have in common. It owns
// the unfinished job and every problem found so far. Reads files. For one thread at a time.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/diagnostics.h"
#include "coordinator/cli/job_builder.h"
#include "coordinator/spec/selection.h"

namespace muster {

// Hosts as read from one place.
struct ListedHosts {
  std::vector<v1::HostEntry> hosts;
  // False when some could not be read: what refers to a missing one is then no error of its own.
  bool complete = true;
};

// Selection flags replace those of the job file as a whole: mixed they would contradict each other.
Selection SelectionOf(const HostFlags& flags, const Selection& otherwise);

google::protobuf::Duration ToProto(Duration duration);

class JobAssembly {
 public:
  // `client` must outlive it.
  explicit JobAssembly(const ClientEnv& client) : client_(client) {}

  Diagnostics& diagnostics() { return diagnostics_; }
  v1::JobSpec& spec() { return job_.spec; }
  std::vector<std::string>& notes() { return job_.notes; }
  void SetForThisMachine() { job_.this_machine = true; }

  // Reads a hostfile that was named at `at`; `shown` is its path in messages.
  ListedHosts ReadHostfile(const std::string& shown, const std::string& path, const Origin& at);
  // Hosts that flags name; nothing when they name none.
  std::optional<ListedHosts> HostsOf(const HostFlags& flags);
  // Makes the selected ones the hosts of the job.
  void Select(const ListedHosts& hosts, const Selection& selection);
  void SetLogDir(const std::string& shown, const std::string& path, const Origin& at);
  // Flags that mean the same for every job. Call last: they win.
  void ApplyFlags(const RunFlags& flags);

  // The job, or all problems.
  absl::StatusOr<BuiltJob> Finish();

 private:
  ListedHosts Parse(std::string_view text, std::string_view file);

  const ClientEnv& client_;
  Diagnostics diagnostics_;
  BuiltJob job_;
};

}  // namespace muster
