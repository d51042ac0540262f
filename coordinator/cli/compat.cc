#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/annotate.h"
#include "common/config/text.h"
#include "common/io/atomic_file.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/compat_script.h"
#include "coordinator/cli/exit_status.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxScriptBytes = 64 << 10;

// What is at a path where a program of ours would be.
enum class Owner { kNothing, kOurs, kOther };

Owner LookAt(const std::string& path) {
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0) return errno == ENOENT ? Owner::kNothing : Owner::kOther;
  // A link is somebody's, whatever it points to.
  if (!S_ISREG(file.st_mode)) return Owner::kOther;
  std::string content;
  if (ReadFile(path, content, kMaxScriptBytes)) return Owner::kOther;
  return IsCompatScript(content) ? Owner::kOurs : Owner::kOther;
}

// Where programs of this user are found by their names.
std::string DefaultFolder() {
  if (::geteuid() == 0) return "/usr/local/bin";
  const char* home = std::getenv("HOME");
  return home == nullptr || *home != '/' ? "" : fmt::format("{}/.local/bin", home);
}

// The first program of this name in PATH; empty when there is none.
std::string FindInPath(const std::string& name) {
  const char* variable = std::getenv("PATH");
  for (const std::string_view folder : Split(variable == nullptr ? "" : variable, ':')) {
    if (folder.empty()) continue;
    std::string path = fmt::format("{}/{}", folder, name);
    std::error_code error;
    if (fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

// What both commands are told.
struct Request {
  std::string folder;
  std::vector<std::string> names;
};

// `make_folder`: with its parents, when it is not there.
std::optional<int> ReadRequest(Flags& flags, Arguments arguments, bool make_folder,
                               Request& request, Reporter& reporter) {
  flags.Text("directory", "FOLDER", &request.folder,
             "where the programs are; default /usr/local/bin for root, else ~/.local/bin;\n"
             "install makes it, with its parents, when it is not there");
  flags.Rest("NAME", &request.names);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return over;
  if (request.names.empty()) request.names.assign(kCompatNames.begin(), kCompatNames.end());
  for (const std::string& name : request.names) {
    if (std::find(kCompatNames.begin(), kCompatNames.end(), name) == kCompatNames.end()) {
      reporter.Say(
          fmt::format("compat: expected deepspeed or gaudi_spawn.py, got '{}'", Printable(name)));
      return kExitUsage;
    }
  }
  if (request.folder.empty()) request.folder = DefaultFolder();
  std::error_code error;
  if (make_folder && !request.folder.empty()) fs::create_directories(request.folder, error);
  const std::string why = error ? fmt::format(" ({})", error.message()) : "";
  if (request.folder.empty() || !fs::is_directory(request.folder, error)) {
    reporter.Say(fmt::format("compat: {} is no folder{}; name one with --directory",
                             request.folder.empty() ? "~/.local/bin" : Printable(request.folder),
                             why));
    return kExitUsage;
  }
  return std::nullopt;
}

// Refuses names that belong to somebody else, all of them, before anything is done.
bool AreOurs(const Request& request, Reporter& reporter) {
  bool ours = true;
  for (const std::string& name : request.names) {
    const std::string path = fmt::format("{}/{}", request.folder, name);
    if (LookAt(path) != Owner::kOther) continue;
    reporter.Say(fmt::format(
        "compat: {} is not of Muster and stays as it is; move it away, or name another --directory",
        Printable(path)));
    ours = false;
  }
  return ours;
}

void SayWhatIsFound(const std::string& path, const std::string& name, Reporter& reporter) {
  // The other one is started by its path, `python3 gaudi_spawn.py`.
  if (name != "deepspeed") return;
  const std::string found = FindInPath(name);
  std::error_code error;
  if (!found.empty() && fs::equivalent(found, path, error)) return;
  reporter.Say(found.empty() ? fmt::format("note: {} is not in a folder of PATH", Printable(path))
                             : fmt::format("note: PATH finds {} first", Printable(found)));
}

int Install(Arguments arguments, Reporter& reporter) {
  Request request;
  Flags flags(
      "compat install [flags] [NAME...]",
      "Makes small programs called deepspeed and gaudi_spawn.py, or the one named, whose "
      "command lines go to\nthis coordinator program. Files that are not of Muster are left "
      "alone.");
  if (const std::optional<int> over = ReadRequest(flags, arguments, true, request, reporter)) {
    return *over;
  }
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) {
    reporter.Say(fmt::format("compat: the path of this program: {}", error.message()));
    return kExitNotStarted;
  }
  if (!AreOurs(request, reporter)) return kExitUsage;
  const fs::path originals = self.parent_path().parent_path() / "share/muster/compat";
  std::string done;
  for (const std::string& name : request.names) {
    const std::string original = (originals / name).string();
    std::string content;
    if (const std::error_code failed = ReadFile(original, content, kMaxScriptBytes)) {
      reporter.Say(fmt::format(
          "compat: {}: {} (the folder share belongs beside that of the program, as in the package)",
          original, failed.message()));
      return kExitNotStarted;
    }
    const absl::StatusOr<std::string> script = MakeCompatScript(content, self.string());
    if (!script.ok()) {
      reporter.Say(fmt::format("compat: {} {}", original, MessageOf(script.status())));
      return kExitNotStarted;
    }
    const std::string path = fmt::format("{}/{}", request.folder, name);
    if (const std::error_code failed =
            WriteFileAtomically(path, *script, 0755, Durability::kProcessCrash)) {
      reporter.Say(fmt::format("compat: {}: {}", Printable(path), failed.message()));
      return kExitUsage;
    }
    done += path + "\n";
    SayWhatIsFound(path, name, reporter);
  }
  return PrintResult(done, reporter);
}

int Remove(Arguments arguments, Reporter& reporter) {
  Request request;
  Flags flags(
      "compat remove [flags] [NAME...]",
      "Removes what `compat install` has made. Files that are not of Muster are left alone.");
  if (const std::optional<int> over = ReadRequest(flags, arguments, false, request, reporter)) {
    return *over;
  }
  if (!AreOurs(request, reporter)) return kExitUsage;
  for (const std::string& name : request.names) {
    const std::string path = fmt::format("{}/{}", request.folder, name);
    if (::unlink(path.c_str()) == 0 || errno == ENOENT) continue;
    ReportError(ErrnoStatus(errno, Printable(path)), reporter);
    return kExitUsage;
  }
  return 0;
}

constexpr Subcommand kSubcommands[] = {{"install", Install}, {"remove", Remove}};

}  // namespace

int RunCompat(Arguments arguments, Reporter& reporter) {
  return RunSubcommand(
      "compat",
      "Makes programs called deepspeed and gaudi_spawn.py for command lines that "
      "begin with these\nnames, or removes them; docs/compat.md has what they take.",
      kSubcommands, arguments, reporter);
}

}  // namespace muster
