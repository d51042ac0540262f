#include "agent/checks/probe_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "agent/checks/fi_info.h"
#include "agent/checks/network_files.h"
#include "agent/checks/quick_checks.h"
#include "agent/checks/traits.h"

namespace muster {
namespace {

constexpr char kPython[] = "python";
constexpr char kLibfabric[] = "libfabric";
constexpr char kEfaProviders[] = "efa";
constexpr char kPingPong[] = "fi_pingpong";
// Where the EFA installer puts its programs, which is not in everybody's PATH.
constexpr char kEfaPrograms[] = "/opt/amazon/efa/bin";
constexpr char kWrapper[] = "libhccl_ofi_wrapper.so";
constexpr char kLate[] = "not known within 2 s";
constexpr char kLateFix[] = "look at the file servers that the node uses, or skip the check";

// Prints versions without importing the packages, which takes seconds.
constexpr char kPythonScript[] =
    "import sys\n"
    "if sys.path and not sys.path[0]: sys.path.pop(0)\n"
    "print('python=%d.%d.%d' % sys.version_info[:3])\n"
    "from importlib import metadata\n"
    "for name in ('torch', 'habana-torch-plugin', 'deepspeed', 'transformers', 'optimum-habana'):\n"
    "    try: print(name + '=' + metadata.version(name))\n"
    "    except Exception: pass\n";

struct NamedPath {
  const char* variable;
  bool writable_folder;
};
constexpr std::array kPaths = {NamedPath{"HABANA_LOGS", true}, NamedPath{"GC_KERNEL_PATH", false},
                               NamedPath{"HABANA_SCAL_BIN_PATH", false},
                               NamedPath{"HABANA_PLUGINS_LIB_PATH", false},
                               NamedPath{"DATA_LOADER_AEON_LIB_PATH", false}};

const char* CheckOf(const NamedPath& path) {
  return path.writable_folder ? "habana-logs" : "habana-files";
}

// Some variables hold several paths with colons between them.
std::vector<std::string> PathsIn(std::string_view value) {
  std::vector<std::string> paths;
  while (!value.empty()) {
    const size_t end = std::min(value.find(':'), value.size());
    if (end > 0) paths.emplace_back(value.substr(0, end));
    value.remove_prefix(std::min(end + 1, value.size()));
  }
  return paths;
}

bool IsPython(std::string_view program) {
  return program.substr(program.rfind('/') + 1).starts_with("python");
}

internal::ProbeProgram& AddProgram(internal::ProbeRequest& request, const char* name,
                                   std::initializer_list<std::string> argv) {
  internal::ProbeProgram& program = *request.add_programs();
  program.set_name(name);
  for (const std::string& one : argv) program.add_argv(one);
  return program;
}

internal::ProbeProgram& AddEfaProgram(internal::ProbeRequest& request, const char* name,
                                      std::initializer_list<std::string> argv) {
  internal::ProbeProgram& program = AddProgram(request, name, argv);
  program.add_folders(kEfaPrograms);
  return program;
}

class Judge {
 public:
  Judge(const CheckContext& context, const ProbePlan& plan, const ProbeAnswer& answer)
      : context_(context), plan_(plan), answer_(answer) {
    if (!answer.error.empty()) late_ = fmt::format("not known: {}", answer.error);
    for (const internal::ProbeReply& reply : answer.replies) {
      if (reply.has_error()) late_ = fmt::format("not known: {}", reply.error());
    }
  }

  ProbeFindings Run() {
    Exec();
    Paths("habana-logs", true, "set HABANA_LOGS to a folder that the ranks may write to");
    Paths("habana-files", false,
          "install the Habana software on this node, or set the variables "
          "as its /etc/profile.d/habanalabs.sh does");
    NetworkFiles();
    Libraries();
    Programs();
    return std::move(findings_);
  }

 private:
  void Add(v1::CheckResult result) { findings_.results.push_back(std::move(result)); }
  void Unknown(const char* check) { Add(MakeResult(check, v1::WARN, late_, kLateFix)); }

  void Exec() {
    if (!plan_.request.check_exec()) return;
    bool through = false;
    bool failed = false;
    for (const internal::ProbeReply& reply : answer_.replies) {
      through = through || reply.exec_checked();
      if (!reply.has_problem()) continue;
      failed = true;
      Add(MakeResult(reply.problem().check(), v1::FAIL, reply.problem().message(), ""));
    }
    if (!through) return Unknown("program");
    if (!failed) Add(MakeResult("program", v1::PASS, "", ""));
  }

  void Paths(const char* check, bool writable, const char* fix) {
    std::set<std::string> unanswered;
    std::vector<std::string> faults;
    for (const internal::ProbePath& asked : plan_.request.paths()) {
      if (asked.writable_folder() == writable && !asked.with_text())
        unanswered.insert(asked.path());
    }
    if (unanswered.empty()) return;
    for (const internal::ProbeReply& reply : answer_.replies) {
      if (!reply.has_path() || reply.path().with_text() ||
          unanswered.erase(reply.path().path()) == 0)
        continue;
      if (reply.path().reason().empty()) continue;
      faults.push_back(fmt::format("{}{}: {}", NameOf(reply.path().path()), reply.path().path(),
                                   reply.path().reason()));
    }
    if (!faults.empty()) {
      // Logs that go nowhere end no job; a missing kernel library ends every one.
      const v1::Verdict verdict = !writable && context_.cards > 0 ? v1::FAIL : v1::WARN;
      Add(MakeResult(check, verdict, fmt::format("{}", fmt::join(faults, "; ")), fix));
    } else if (!unanswered.empty()) {
      Unknown(check);
    } else {
      Add(MakeResult(check, v1::PASS, "", ""));
    }
  }

  std::string NameOf(const std::string& path) const {
    for (const NamedPath& named : kPaths) {
      const std::vector<std::string> paths = PathsIn(context_.Env(named.variable));
      if (std::find(paths.begin(), paths.end(), path) != paths.end()) {
        return fmt::format("{}=", named.variable);
      }
    }
    return "";
  }

  // Of the variables that are set: what HCL is told of the cards' ports.
  void NetworkFiles() {
    for (const internal::ProbePath& asked : plan_.request.paths()) {
      if (!asked.with_text()) continue;
      const auto reply = std::find_if(
          answer_.replies.begin(), answer_.replies.end(), [&](const internal::ProbeReply& one) {
            return one.has_path() && one.path().with_text() && one.path().path() == asked.path();
          });
      if (reply == answer_.replies.end()) {
        Unknown("network-files");
      } else {
        Add(NetworkFile(reply->path()));
      }
    }
  }

  v1::CheckResult NetworkFile(const internal::ProbedPath& file) const {
    const bool is_net = context_.Env(kNetVariable) == file.path();
    const std::string shown =
        fmt::format("{}={}", is_net ? kNetVariable : kMacVariable, file.path());
    if (!file.reason().empty()) {
      const bool needed =
          context_.multi_node() && !context_.uses_host_nic() && (is_net || UsesLayer3(context_));
      return MakeResult("network-files", needed ? v1::FAIL : v1::WARN,
                        fmt::format("{}: {}", shown, file.reason()),
                        "put the file there on every node, or unset the variable");
    }
    const std::string fault =
        is_net ? FaultOfNetFile(shown, file.text()) : FaultOfMacFile(shown, file.text());
    return fault.empty() ? MakeResult("network-files", v1::PASS, "", "")
                         : MakeResult("network-files", v1::FAIL, fault,
                                      "write it anew with the tools of the driver");
  }

  void Libraries() {
    if (plan_.request.libraries().empty()) return;
    for (const internal::ProbeReply& reply : answer_.replies) {
      if (!reply.has_library()) continue;
      if (reply.library().missing().empty()) {
        return Add(MakeResult("ofi-wrapper", v1::PASS, reply.library().file(), ""));
      }
      const std::string_view path = context_.Env("LD_LIBRARY_PATH");
      const bool told_to = context_.EnvIsOn("HCCL_OVER_OFI");
      return Add(MakeResult(
          "ofi-wrapper", context_.cards > 0 && told_to ? v1::FAIL : v1::WARN,
          fmt::format("{} needs {}; not found with LD_LIBRARY_PATH={}: {}",
                      told_to ? "HCCL_OVER_OFI=1" : "HCCL over EFA", kWrapper, path,
                      fmt::join(reply.library().missing(), ", ")),
          "build hccl_ofi_wrapper, and add its folder and those of libfabric to LD_LIBRARY_PATH in "
          "an env file, as LD_LIBRARY_PATH=$LD_LIBRARY_PATH:FOLDER"));
    }
    Unknown("ofi-wrapper");
  }

  void Programs() {
    for (const internal::ProbeProgram& asked : plan_.request.programs()) {
      const auto reply = std::find_if(
          answer_.replies.begin(), answer_.replies.end(), [&](const internal::ProbeReply& one) {
            return one.has_program() && one.program().name() == asked.name();
          });
      if (reply == answer_.replies.end()) {
        const bool is_efa = asked.name() == kEfaProviders || asked.name() == kPingPong;
        Unknown(is_efa ? "efa" : "software");
      } else if (asked.name() == kPingPong) {
        findings_.traits.push_back(MakeTrait(kPingPong, reply->program().path()));
      } else if (asked.name() == kPython) {
        Python(reply->program());
      } else if (asked.name() == kLibfabric) {
        Libfabric(reply->program());
      } else {
        Providers(reply->program());
      }
    }
  }

  void Python(const internal::ProbedProgram& program) {
    // A script whose interpreter is missing has that told as a problem of its own.
    if (program.absent()) return;
    if (!program.reason().empty()) {
      Add(MakeResult(
          "software", v1::WARN,
          fmt::format("the versions of Python and its packages could not be asked for: {}",
                      program.reason()),
          "run the interpreter of the job by hand on this node"));
      return;
    }
    std::string_view text = program.output();
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = text.substr(0, end);
      const size_t equals = line.find('=');
      if (equals != std::string_view::npos && findings_.traits.size() < 16) {
        findings_.traits.push_back(MakeTrait(std::string(line.substr(0, equals)),
                                             std::string(line.substr(equals + 1, 100))));
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    Add(MakeResult("software", v1::PASS, "", ""));
  }

  void Libfabric(const internal::ProbedProgram& program) {
    if (program.absent() || !program.reason().empty()) {
      // The libraries may be there all the same.
      findings_.traits.push_back(MakeTrait("libfabric", ""));
      return;
    }
    const std::string version = LibfabricVersion(program.output());
    findings_.traits.push_back(MakeTrait("libfabric", version));
    const std::string fault = FaultOfLibfabric(version, context_.Env("FI_PROVIDER") == "verbs");
    if (!fault.empty()) Add(MakeResult("efa", v1::WARN, fault, "install another libfabric"));
  }

  void Providers(const internal::ProbedProgram& program) {
    if (program.absent()) return;
    const size_t providers =
        program.reason().empty() ? CountReliableDomains(program.output(), "efa") : 0;
    const size_t devices = context_.efa_devices().size();
    if (providers == 0) {
      Add(MakeResult("efa", v1::FAIL, "fi_info -p efa finds no provider with FI_EP_RDM",
                     "install EFA, and map its devices into the container"));
    } else if (providers < devices) {
      Add(MakeResult(
          "efa", v1::WARN,
          fmt::format("fi_info -p efa finds {} of {} EFA devices", providers, devices),
          "map all of /dev/infiniband into the container, and look at the kernel's log"));
    }
  }

  const CheckContext& context_;
  const ProbePlan& plan_;
  const ProbeAnswer& answer_;
  std::string late_ = kLate;
  ProbeFindings findings_;
};

}  // namespace

ProbePlan PlanProbe(const CheckContext& context, const InspectionRequest& request) {
  ProbePlan plan;
  internal::ProbeRequest& asked = plan.request;
  const auto& skip = request.launch.skip_checks();
  const auto wanted = [&](std::string_view check) {
    return std::find(skip.begin(), skip.end(), check) == skip.end();
  };
  const bool has_program = !request.launch.argv().empty();
  asked.set_check_exec(request.thorough && has_program);
  // The files and programs are those of the image, which nothing on the node can see.
  const bool in_image = request.launch.has_container();
  if (!in_image && (context.cards > 0 || context.thorough)) {
    for (const NamedPath& named : kPaths) {
      if (!wanted(CheckOf(named))) continue;
      for (std::string& path : PathsIn(context.Env(named.variable))) {
        internal::ProbePath& one = *asked.add_paths();
        one.set_path(std::move(path));
        one.set_writable_folder(named.writable_folder);
      }
    }
    for (const char* variable : {kMacVariable, kNetVariable}) {
      if (context.cards == 0 || context.Env(variable).empty() || !wanted("network-files")) continue;
      internal::ProbePath& one = *asked.add_paths();
      one.set_path(std::string(context.Env(variable)));
      one.set_with_text(true);
    }
    const bool over_ofi = context.EnvIsOn("HCCL_OVER_OFI") ||
                          (context.cards > 0 && context.multi_node() && context.needs_efa());
    if (over_ofi && wanted("ofi-wrapper")) asked.add_libraries(kWrapper);
  }
  const bool compares =
      !in_image && (context.thorough || (context.cards > 0 && context.multi_node()));
  if (compares && wanted("software")) {
    const std::string interpreter =
        has_program && IsPython(request.launch.argv(0)) ? request.launch.argv(0) : "python3";
    // Other programs bring what they need themselves.
    if (!has_program || IsPython(request.launch.argv(0))) {
      AddProgram(asked, kPython, {interpreter, "-c", kPythonScript});
    }
    const bool host_nic = context.wants_efa() || context.EnvIsOn("HCCL_OVER_OFI");
    if (host_nic) AddEfaProgram(asked, kLibfabric, {"fi_info", "--version"});
  }
  if (!in_image && context.wants_efa() && context.cards > 0 && wanted("efa")) {
    AddEfaProgram(asked, kEfaProviders, {"fi_info", "-p", "efa"});
  }
  // For whoever tests the network afterwards.
  if (!in_image && context.thorough && context.has_efa()) {
    AddEfaProgram(asked, kPingPong, {"fi_pingpong"}).set_find_only(true);
  }
  if (plan.empty()) return plan;
  internal::ShimBootstrap& bootstrap = *asked.mutable_bootstrap();
  bootstrap = request.bootstrap;
  if (bootstrap.working_directory().empty()) bootstrap.set_working_directory("/");
  return plan;
}

ProbeFindings JudgeProbe(const CheckContext& context, const ProbePlan& plan,
                         const ProbeAnswer& answer) {
  return Judge(context, plan, answer).Run();
}

}  // namespace muster
