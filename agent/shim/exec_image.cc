#include "agent/shim/exec_image.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "agent/shim/text.h"
#include "common/io/unique_fd.h"

namespace muster::shim {
namespace {

// Left for MASTER_ADDR, MASTER_PORT and what else is added at the start.
constexpr uint64_t kReservedExecBytes = 4096;
constexpr size_t kMaxProblems = 64;

std::string Join(const std::string& directory, std::string_view path) {
  if (path.starts_with('/')) return std::string(path);
  return directory + "/" + std::string(path);
}

// Says what an executable file lacks to be executed; empty when nothing is known to.
std::string InspectExecutable(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return ErrnoText(errno);
  if (S_ISDIR(status.st_mode)) return "it is a directory";
  if (!S_ISREG(status.st_mode)) return "it is no regular file";
  if (::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) != 0) {
    return errno == EACCES ? "it is not executable (chmod +x?)" : ErrnoText(errno);
  }
  return "";
}

// The interpreter that the first line of a script names, when that does not exist; else empty.
std::string MissingInterpreter(const std::string& path, const std::string& working_directory) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  char head[256];
  const ssize_t count = fd ? ::read(fd.get(), head, sizeof(head)) : 0;
  if (count < 3) return "";
  std::string_view line(head, static_cast<size_t>(count));
  if (!line.starts_with("#!")) return "";
  line.remove_prefix(2);
  const size_t end = line.find('\n');
  if (end == std::string_view::npos) return "";
  line = line.substr(0, end);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  const std::string interpreter(line.substr(0, line.find_first_of(" \t")));
  if (interpreter.empty()) return "";
  if (::access(Join(working_directory, interpreter).c_str(), F_OK) == 0) return "";
  // "#!/bin/sh\r" is what an editor of another system leaves.
  return Quoted(interpreter);
}

void CheckDirectory(const std::string& path, std::vector<Problem>& problems) {
  struct stat status = {};
  std::string reason;
  if (path.empty() || path[0] != '/') {
    reason = "is not an absolute path";
  } else if (::stat(path.c_str(), &status) != 0) {
    reason = "cannot be used: " + ErrnoText(errno);
  } else if (!S_ISDIR(status.st_mode)) {
    reason = "is not a directory";
  } else if (::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) != 0) {
    reason = "cannot be entered: " + ErrnoText(errno);
  }
  if (!reason.empty()) {
    problems.push_back(
        {"working-directory", "the working directory " + Quoted(path) + " " + reason});
  }
}

void CheckScript(const std::string& script, const std::string& directory,
                 std::vector<Problem>& problems) {
  if (script.empty()) return;
  const std::string path = Join(directory, script);
  struct stat status = {};
  std::string reason;
  if (::stat(path.c_str(), &status) != 0) {
    reason = "cannot be read: " + ErrnoText(errno);
  } else if (S_ISDIR(status.st_mode)) {
    // Python runs a directory that has a __main__.py.
    if (::access((path + "/__main__.py").c_str(), R_OK) != 0) reason = "is a directory";
  } else if (::faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) != 0) {
    reason = "cannot be read: " + ErrnoText(errno);
  }
  if (!reason.empty()) {
    problems.push_back(
        {"script", "the script " + Quoted(script) + " (in " + Quoted(directory) + ") " + reason});
  }
}

std::string TooLong(std::string_view what, size_t bytes) {
  return std::string(what) + " is too long: " + std::to_string(bytes) +
         " bytes; the kernel allows at most " + std::to_string(kMaxExecStringBytes) +
         " for one string, which for a variable is name, '=' and value";
}

// Checks the strings of one rank. Returns the bytes that execve would need.
uint64_t CheckStrings(const internal::ShimRank& rank, std::vector<Problem>& problems) {
  uint64_t total = 0;
  for (int i = 0; i < rank.argv_size(); ++i) {
    const std::string& argument = rank.argv(i);
    total += argument.size() + 1 + sizeof(char*);
    if (argument.size() > kMaxExecStringBytes) {
      problems.push_back({"arguments", TooLong("argument " + std::to_string(i) + " (" +
                                                   Quoted(argument.substr(0, 40)) + "...)",
                                               argument.size())});
    }
    if (argument.find('\0') != std::string::npos) {
      problems.push_back({"arguments", "argument " + std::to_string(i) + " has a NUL byte in it"});
    }
  }
  for (const std::string& variable : rank.env()) {
    total += variable.size() + 1 + sizeof(char*);
    const size_t equals = variable.find('=');
    const bool named = equals != std::string::npos && equals != 0;
    const bool has_nul = variable.find('\0') != std::string::npos;
    if (named && !has_nul && variable.size() <= kMaxExecStringBytes) continue;
    const std::string name = Printable(variable.substr(0, equals), 100);
    if (!named) {
      problems.push_back({"arguments", Quoted(name) + " is no NAME=value of an environment"});
    } else if (has_nul) {
      problems.push_back(
          {"arguments", "the environment variable " + name + " has a NUL byte in it"});
    } else {
      problems.push_back(
          {"arguments", TooLong("the environment variable " + name, variable.size())});
    }
  }
  return total;
}

}  // namespace

uint64_t MaxExecBytes() {
  // fs/exec.c: a quarter of the stack limit, at most three quarters of 8 MiB, at least ARG_MAX.
  constexpr uint64_t kMost = uint64_t{6} << 20;
  constexpr uint64_t kLeast = uint64_t{128} << 10;
  struct rlimit stack = {};
  if (::getrlimit(RLIMIT_STACK, &stack) != 0) return kLeast;
  return std::clamp<uint64_t>(stack.rlim_cur / 4, kLeast, kMost);
}

std::optional<std::string_view> FindEnv(const Strings& env, std::string_view name) {
  for (const std::string& variable : env) {
    if (variable.size() > name.size() && variable[name.size()] == '=' &&
        std::string_view(variable).starts_with(name)) {
      return std::string_view(variable).substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

void MergeEnv(Strings& env, const Strings& added) {
  for (const std::string& variable : added) {
    const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
    const auto same = std::find_if(env.begin(), env.end(), [&](const std::string& other) {
      return std::string_view(other).substr(0, other.find('=')) == name;
    });
    if (same != env.end()) {
      *same = variable;
    } else {
      *env.Add() = variable;
    }
  }
}

ResolvedProgram ResolveProgram(std::string_view program,
                               const std::optional<std::string>& path_variable,
                               const std::string& working_directory) {
  const std::string name(program);
  if (name.empty()) return {"", {"program-not-found", "the command is empty"}};
  const auto found = [&](const std::string& path) -> ResolvedProgram {
    const std::string missing =
        MissingInterpreter(Join(working_directory, path), working_directory);
    if (missing.empty()) return {path, {}};
    return {"",
            {"program-not-found",
             "the program " + Quoted(path) +
                 " names an interpreter in its first line that does not exist: " + missing}};
  };
  if (name.find('/') != std::string::npos) {
    const std::string reason = InspectExecutable(Join(working_directory, name));
    if (reason.empty()) return found(name);
    const bool absent =
        ::access(Join(working_directory, name).c_str(), F_OK) != 0 && errno == ENOENT;
    return {"",
            {absent ? "program-not-found" : "program-not-executable",
             "the program " + Quoted(name) + " cannot be executed: " + reason}};
  }
  // What execvp takes when there is no PATH.
  const std::string search = path_variable.value_or("/bin:/usr/bin");
  std::string refused;
  size_t begin = 0;
  while (begin <= search.size()) {
    const size_t end = std::min(search.find(':', begin), search.size());
    // An empty entry means the working directory.
    std::string candidate = end == begin ? "." : search.substr(begin, end - begin);
    candidate += '/';
    candidate += name;
    const std::string reason = InspectExecutable(Join(working_directory, candidate));
    if (reason.empty()) return found(candidate);
    struct stat status = {};
    if (refused.empty() && ::stat(Join(working_directory, candidate).c_str(), &status) == 0 &&
        !S_ISDIR(status.st_mode)) {
      refused = "the program " + Quoted(candidate) + " cannot be executed: " + reason;
    }
    begin = end + 1;
  }
  if (!refused.empty()) return {"", {"program-not-executable", refused}};
  return {"",
          {"program-not-found",
           "the program " + Quoted(name) + " was not found in PATH=" + Printable(search, 500)}};
}

std::vector<Problem> CheckExec(const internal::ShimBootstrap& bootstrap,
                               std::vector<std::string>& paths) {
  std::vector<Problem> problems;
  const std::string& directory = bootstrap.working_directory();
  CheckDirectory(directory, problems);
  const bool directory_works = problems.empty();
  if (directory_works) CheckScript(bootstrap.script(), directory, problems);

  const uint64_t limit = MaxExecBytes() - kReservedExecBytes;
  // Ranks mostly share program and PATH: look each pair up once.
  std::map<std::pair<std::string, std::optional<std::string>>, ResolvedProgram> resolved;
  paths.clear();
  for (const internal::ShimRank& rank : bootstrap.ranks()) {
    const uint64_t total = CheckStrings(rank, problems);
    if (total > limit) {
      problems.push_back(
          {"arguments",
           "arguments and environment are too long together: " + std::to_string(total) +
               " bytes; the kernel allows " + std::to_string(limit) +
               ", a quarter of the stack limit (ulimit -s); the largest is " +
               DescribeLargestString(rank.argv(), rank.env())});
    }
    std::optional<std::string> path_variable;
    if (const auto value = FindEnv(rank.env(), "PATH")) path_variable = std::string(*value);
    const std::string program = rank.argv_size() > 0 ? rank.argv(0) : "";
    const auto [entry, first] = resolved.try_emplace({program, path_variable});
    ResolvedProgram& result = entry->second;
    if (first && directory_works) result = ResolveProgram(program, path_variable, directory);
    paths.push_back(result.path);
    if (!result.problem.check.empty()) problems.push_back(result.problem);
  }
  std::vector<Problem> distinct;
  for (Problem& problem : problems) {
    if (distinct.size() < kMaxProblems &&
        std::find(distinct.begin(), distinct.end(), problem) == distinct.end()) {
      distinct.push_back(std::move(problem));
    }
  }
  return distinct;
}

std::string DescribeLargestString(const Strings& argv, const Strings& env) {
  size_t largest = 0;
  std::string what = "nothing";
  for (int i = 0; i < argv.size(); ++i) {
    if (argv[i].size() < largest) continue;
    largest = argv[i].size();
    what = "argument " + std::to_string(i);
  }
  for (const std::string& variable : env) {
    if (variable.size() < largest) continue;
    largest = variable.size();
    what = "the environment variable " + Printable(variable.substr(0, variable.find('=')), 100);
  }
  return what + " (" + std::to_string(largest) + " bytes)";
}

}  // namespace muster::shim
