// A rank for tests. Its arguments are steps that it takes one after the other:
//
//   --print TEXT, --eprint TEXT      writes a line to stdout, stderr
//   --bytes FD COUNT SEED            writes seeded binary bytes (seeded_bytes.h)
//   --rank-bytes FD COUNT SEED       the same from SEED + RANK
//   --for-rank N, --for-all          the steps that follow are only for that rank, for all again
//   --append-line FILE               appends a line with its pid
//   --lines FD COUNT LENGTH          writes numbered lines of LENGTH bytes, newline included,
//   buffered
//   --unbuffered-lines FD COUNT LENGTH   the same with one write a line
//   --long-line FD COUNT             writes COUNT bytes without a newline
//   --report                         prints argv, environment, cwd, descriptors, signals, limits as
//   JSON
//   --close FD                       closes a descriptor
//   --ignore-term                    ignores SIGTERM, SIGINT and SIGHUP
//   --exit-on-term CODE DELAY_MS     on SIGTERM: waits, then exits with CODE
//   --touch-on-signal NUMBER FILE    creates FILE when the signal comes
//   --touch FILE, --wait-file FILE   creates a file, waits for one
//   --touch-pid FILE                 creates a file that holds its pid
//   --sleep-ms N                     waits
//   --children N FILE                starts N sleeping children, appends their pids to FILE
//   --deaf-children N FILE           the same, ignoring SIGTERM
//   --sessions N FILE                the same, each in a session of its own
//   --daemons N FILE                 the same, double-forked: orphans in sessions of their own
//   --bare-daemons N FILE            the same with an empty environment
//   --brief-daemon MS FILE           one orphan that ends after MS
//   --fork-bomb N                    forks until N processes were made, as fast as it can; never
//   ends
//   --eat-memory MIB                 takes that much memory and writes to it
//   --stop                           stops itself (SIGSTOP)
//   --signal NUMBER                  sends itself a signal
//   --exit CODE                      ends; the end of the steps is --exit 0
//
// No library but the standard one; nothing of Muster is linked.

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/process/rank_probe/seeded_bytes.h"

extern char** environ;

namespace {

volatile sig_atomic_t g_term_code = 0;
volatile sig_atomic_t g_term_delay_ms = 0;
const char* g_touch_files[65] = {};

void SleepMs(long ms) {
  timespec left = {ms / 1000, ms % 1000 * 1'000'000};
  while (::nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

void WriteAll(int fd, const char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t written = ::write(fd, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) ::_exit(99);
    bytes += written;
    count -= static_cast<size_t>(written);
  }
}

void WriteLine(int fd, std::string text) {
  text += '\n';
  WriteAll(fd, text.data(), text.size());
}

void Touch(const char* path, const std::string& text = "") {
  // Appears whole: whoever waits for the file may read it at once.
  const std::string temporary = std::string(path) + ".tmp";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) ::_exit(98);
  WriteAll(fd, text.data(), text.size());
  ::close(fd);
  if (::rename(temporary.c_str(), path) != 0) ::_exit(98);
}

void OnTerm(int) {
  SleepMs(g_term_delay_ms);
  ::_exit(g_term_code);
}

void OnTouchSignal(int signal) {
  const int fd = ::open(g_touch_files[signal], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd >= 0) ::close(fd);
}

void Handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
}

void IgnoreTerm() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) Handle(signal, SIG_IGN);
}

[[noreturn]] void SleepForEver() {
  while (true) ::pause();
}

void AppendPid(const char* path) {
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) ::_exit(98);
  WriteLine(fd, std::to_string(::getpid()));
  ::close(fd);
}

// Returns when all have written their pids.
void StartChildren(const std::string& kind, int count, const char* path) {
  int done[2];
  if (::pipe2(done, O_CLOEXEC) != 0) ::_exit(98);
  for (int i = 0; i < count; ++i) {
    if (::fork() != 0) continue;
    if (kind == "--deaf-children") IgnoreTerm();
    if (kind != "--children" && kind != "--deaf-children") ::setsid();
    if (kind == "--daemons" || kind == "--bare-daemons") {
      if (::fork() != 0) ::_exit(0);
    }
    AppendPid(path);
    ::close(done[1]);
    if (kind == "--bare-daemons") {
      char program[] = "/bin/sleep";
      char seconds[] = "1000";
      char* argv[] = {program, seconds, nullptr};
      char* envp[] = {nullptr};
      ::execve(program, argv, envp);
      ::_exit(97);
    }
    SleepForEver();
  }
  ::close(done[1]);
  char byte = 0;
  while (::read(done[0], &byte, 1) > 0) {
  }
  ::close(done[0]);
}

void StartBriefDaemon(long ms, const char* path) {
  if (::fork() == 0) {
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    AppendPid(path);
    SleepMs(ms);
    ::_exit(0);
  }
}

[[noreturn]] void ForkBomb(int most) {
  void* memory = ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* count = new (memory) std::atomic<int>(1);
  Handle(SIGCHLD, SIG_IGN);
  while (true) {
    if (count->fetch_add(1) >= most) {
      // The number of all processes ever made is bounded, so that a failing test does no harm.
      SleepMs(5);
      continue;
    }
    if (::fork() == 0) ::setsid();
  }
}

void WriteSeeded(int fd, size_t count, uint64_t seed) {
  muster::testing::SeededBytes stream(seed);
  std::vector<char> chunk(size_t{64} << 10);
  while (count > 0) {
    const size_t size = std::min(count, chunk.size());
    stream.Fill(chunk.data(), size);
    WriteAll(fd, chunk.data(), size);
    count -= size;
  }
}

void WriteLines(int fd, size_t count, size_t length, bool buffered) {
  std::string text;
  std::string line(length, '.');
  line.back() = '\n';
  for (size_t i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    std::copy(number.begin(), number.begin() + std::min(number.size(), length - 1), line.begin());
    if (!buffered) {
      WriteAll(fd, line.data(), line.size());
      continue;
    }
    text += line;
    if (text.size() >= size_t{64} << 10) {
      WriteAll(fd, text.data(), text.size());
      text.clear();
    }
  }
  WriteAll(fd, text.data(), text.size());
}

void WriteLongLine(int fd, size_t count) {
  const std::string chunk(size_t{64} << 10, 'x');
  for (; count > chunk.size(); count -= chunk.size()) WriteAll(fd, chunk.data(), chunk.size());
  WriteAll(fd, chunk.data(), count);
}

std::string JsonString(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '"' || c == '\\') {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", byte);
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string JsonList(char** strings) {
  std::string out = "[";
  for (char** text = strings; *text != nullptr; ++text) {
    if (text != strings) out += ", ";
    out += JsonString(*text);
  }
  return out + "]";
}

std::string JsonLimit(__rlimit_resource_t resource) {
  struct rlimit limit = {};
  ::getrlimit(resource, &limit);
  const auto text = [](rlim_t value) {
    return value == RLIM_INFINITY ? std::string("-1") : std::to_string(value);
  };
  return "[" + text(limit.rlim_cur) + ", " + text(limit.rlim_max) + "]";
}

std::string ReadWhole(const char* path) {
  std::string text;
  if (FILE* file = std::fopen(path, "r")) {
    char chunk[4096];
    size_t count = 0;
    while ((count = std::fread(chunk, 1, sizeof(chunk), file)) > 0) text.append(chunk, count);
    std::fclose(file);
  }
  return text;
}

void Report(char** argv) {
  std::string fds;
  DIR* directory = ::opendir("/proc/self/fd");
  while (const dirent* entry = directory != nullptr ? ::readdir(directory) : nullptr) {
    if (entry->d_name[0] == '.' || std::atoi(entry->d_name) == ::dirfd(directory)) continue;
    char target[4096] = {};
    const std::string link = std::string("/proc/self/fd/") + entry->d_name;
    if (::readlink(link.c_str(), target, sizeof(target) - 1) < 0) continue;
    if (!fds.empty()) fds += ", ";
    fds += JsonString(entry->d_name) + ": " + JsonString(target);
  }
  if (directory != nullptr) ::closedir(directory);
  std::string signals;
  const std::string status = ReadWhole("/proc/self/status");
  for (const char* name : {"SigBlk", "SigIgn", "SigCgt"}) {
    const size_t at = status.find(std::string("\n") + name + ":\t");
    if (!signals.empty()) signals += ", ";
    signals += JsonString(name) + ": " +
               JsonString(at == std::string::npos ? "" : status.substr(at + 9, 16));
  }
  int death_signal = 0;
  ::prctl(PR_GET_PDEATHSIG, &death_signal);
  char cwd[4096] = {};
  if (::getcwd(cwd, sizeof(cwd)) == nullptr) cwd[0] = 0;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  std::string score = ReadWhole("/proc/self/oom_score_adj");
  score = score.substr(0, score.find('\n'));
  WriteLine(STDOUT_FILENO,
            "{\"argv\": " + JsonList(argv) + ", \"env\": " + JsonList(environ) +
                ", \"cwd\": " + JsonString(cwd) + ", \"fds\": {" + fds + "}, \"signals\": {" +
                signals + "}, \"pid\": " + std::to_string(::getpid()) + ", \"session\": " +
                std::to_string(::getsid(0)) + ", \"group\": " + std::to_string(::getpgrp()) +
                ", \"death_signal\": " + std::to_string(death_signal) +
                ", \"umask\": " + std::to_string(mask) + ", \"oom_score_adj\": " + score +
                ", \"nice\": " + std::to_string(::getpriority(PRIO_PROCESS, 0)) + ", \"nofile\": " +
                JsonLimit(RLIMIT_NOFILE) + ", \"memlock\": " + JsonLimit(RLIMIT_MEMLOCK) + "}");
}

// -1 without one.
long OwnRank() {
  const char* rank = std::getenv("RANK");
  return rank == nullptr ? -1 : std::atol(rank);
}

bool IsOneOf(const char* word, const char* a, const char* b) {
  return std::strcmp(word, a) == 0 || std::strcmp(word, b) == 0;
}

void AppendLine(const char* path, const std::string& line) {
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    ::_exit(94);
  }
  ::close(fd);
}

void WaitFile(const char* path) {
  while (::access(path, F_OK) != 0) SleepMs(2);
}

}  // namespace

int main(int argc, char** argv) {
  int next = 1;
  const auto text = [&] {
    if (next >= argc) {
      WriteLine(STDERR_FILENO, "rank_probe: an argument is missing");
      ::_exit(96);
    }
    return argv[next++];
  };
  const auto number = [&] { return std::atol(text()); };
  while (next < argc) {
    const std::string step = text();
    if (step == "--print") {
      WriteLine(STDOUT_FILENO, text());
    } else if (step == "--eprint") {
      WriteLine(STDERR_FILENO, text());
    } else if (step == "--bytes") {
      const int fd = static_cast<int>(number());
      const auto count = static_cast<size_t>(number());
      WriteSeeded(fd, count, static_cast<uint64_t>(number()));
    } else if (step == "--rank-bytes") {
      const int fd = static_cast<int>(number());
      const auto count = static_cast<size_t>(number());
      WriteSeeded(fd, count, static_cast<uint64_t>(number() + OwnRank()));
    } else if (step == "--for-rank") {
      if (number() == OwnRank()) continue;
      while (next < argc && !IsOneOf(argv[next], "--for-rank", "--for-all")) ++next;
    } else if (step == "--for-all") {
    } else if (step == "--append-line") {
      AppendLine(text(), std::to_string(::getpid()) + "\n");
    } else if (step == "--lines" || step == "--unbuffered-lines") {
      const int fd = static_cast<int>(number());
      const auto count = static_cast<size_t>(number());
      WriteLines(fd, count, static_cast<size_t>(number()), step == "--lines");
    } else if (step == "--long-line") {
      const int fd = static_cast<int>(number());
      WriteLongLine(fd, static_cast<size_t>(number()));
    } else if (step == "--report") {
      Report(argv);
    } else if (step == "--close") {
      ::close(static_cast<int>(number()));
    } else if (step == "--ignore-term") {
      IgnoreTerm();
    } else if (step == "--exit-on-term") {
      g_term_code = static_cast<int>(number());
      g_term_delay_ms = static_cast<int>(number());
      Handle(SIGTERM, OnTerm);
    } else if (step == "--touch-on-signal") {
      const long signal = number();
      g_touch_files[signal] = text();
      Handle(static_cast<int>(signal), OnTouchSignal);
    } else if (step == "--touch") {
      Touch(text());
    } else if (step == "--touch-pid") {
      Touch(text(), std::to_string(::getpid()));
    } else if (step == "--wait-file") {
      WaitFile(text());
    } else if (step == "--sleep-ms") {
      SleepMs(number());
    } else if (step == "--children" || step == "--deaf-children" || step == "--sessions" ||
               step == "--daemons" || step == "--bare-daemons") {
      const int count = static_cast<int>(number());
      StartChildren(step, count, text());
    } else if (step == "--brief-daemon") {
      const long ms = number();
      StartBriefDaemon(ms, text());
    } else if (step == "--fork-bomb") {
      ForkBomb(static_cast<int>(number()));
    } else if (step == "--eat-memory") {
      const auto bytes = static_cast<size_t>(number()) << 20;
      void* const memory =
          ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) ::_exit(97);
      std::memset(memory, 1, bytes);
    } else if (step == "--stop") {
      ::raise(SIGSTOP);
    } else if (step == "--signal") {
      ::kill(::getpid(), static_cast<int>(number()));
    } else if (step == "--exit") {
      ::_exit(static_cast<int>(number()));
    } else {
      WriteLine(STDERR_FILENO, "rank_probe: unknown step " + step);
      return 95;
    }
  }
  return 0;
}
