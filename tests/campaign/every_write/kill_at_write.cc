// Loaded into a program by LD_PRELOAD: counts what it writes, over all its threads, and kills it at
// the write that a test has named (kill_page.h). A write is every call of the C library that
// changes a file or a folder, or hands bytes to a socket: all that others can ever see of the
// program. Needs no permission to trace, unlike strace, whose counts are those of single threads.
// Programs that the killed one starts are not concerned.
//
// Uses the C library only, because it runs before everything else in the process.

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/campaign/every_write/kill_page.h"

namespace {

using muster::testing::KillMoment;
using muster::testing::KillPage;

KillPage* g_page = nullptr;

__attribute__((constructor)) void Begin() {
  const char* path = ::getenv(muster::testing::kKillPageVariable);
  if (path == nullptr) return;
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  void* memory = ::mmap(nullptr, sizeof(KillPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd < 0 || memory == MAP_FAILED) ::abort();
  ::close(fd);
  // What it starts lives.
  ::unsetenv(muster::testing::kKillPageVariable);
  ::unsetenv("LD_PRELOAD");
  g_page = static_cast<KillPage*>(memory);
}

[[noreturn]] void Die() {
  ::kill(::getpid(), SIGKILL);
  while (true) ::pause();
}

template <typename Function>
Function* Real(Function* own, const char* name) {
  // Looked up every time: cheap enough, and right from the first call on.
  (void)own;
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool IsRegular(int fd) {
  struct stat status = {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

// Runs `whole`, unless this is where the process dies. `half` does half of it.
template <typename Whole, typename Half>
auto Count(const Whole& whole, const Half& half) {
  if (g_page == nullptr) return whole();
  const uint64_t number = g_page->writes.fetch_add(1) + 1;
  const uint64_t last = g_page->last_write;
  if (last == 0 || number < last) return whole();
  if (g_page->moment == KillMoment::kAfter) (void)whole();
  if (g_page->moment == KillMoment::kHalfway) half();
  Die();
}

template <typename Whole>
auto Count(const Whole& whole) {
  return Count(whole, [] {});
}

}  // namespace

#define REAL(name) Real(&name, #name)

extern "C" {

ssize_t write(int fd, const void* bytes, size_t count) {
  const auto real = REAL(write);
  // Wake-ups and messages for people are no state.
  if (fd <= STDERR_FILENO || !IsRegular(fd)) return real(fd, bytes, count);
  return Count([&] { return real(fd, bytes, count); }, [&] { (void)real(fd, bytes, count / 2); });
}

ssize_t writev(int fd, const iovec* parts, int count) {
  const auto real = REAL(writev);
  if (fd <= STDERR_FILENO || !IsRegular(fd)) return real(fd, parts, count);
  return Count([&] { return real(fd, parts, count); }, [&] { (void)real(fd, parts, count / 2); });
}

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t at) {
  const auto real = REAL(pwrite);
  return Count([&] { return real(fd, bytes, count, at); },
               [&] { (void)real(fd, bytes, count / 2, at); });
}

ssize_t pwrite64(int fd, const void* bytes, size_t count, off64_t at) {
  const auto real = REAL(pwrite64);
  return Count([&] { return real(fd, bytes, count, at); },
               [&] { (void)real(fd, bytes, count / 2, at); });
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  const auto real = REAL(sendmsg);
  return Count([&] { return real(fd, message, flags); });
}

int fsync(int fd) {
  const auto real = REAL(fsync);
  return Count([&] { return real(fd); });
}

int fdatasync(int fd) {
  const auto real = REAL(fdatasync);
  return Count([&] { return real(fd); });
}

int ftruncate(int fd, off_t size) noexcept {
  const auto real = REAL(ftruncate);
  return Count([&] { return real(fd, size); });
}

int ftruncate64(int fd, off64_t size) noexcept {
  const auto real = REAL(ftruncate64);
  return Count([&] { return real(fd, size); });
}

int fallocate(int fd, int mode, off_t at, off_t size) {
  const auto real = REAL(fallocate);
  return Count([&] { return real(fd, mode, at, size); });
}

int fallocate64(int fd, int mode, off64_t at, off64_t size) {
  const auto real = REAL(fallocate64);
  return Count([&] { return real(fd, mode, at, size); });
}

int rename(const char* from, const char* to) noexcept {
  const auto real = REAL(rename);
  return Count([&] { return real(from, to); });
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  const auto real = REAL(renameat);
  return Count([&] { return real(from_folder, from, to_folder, to); });
}

int unlink(const char* path) noexcept {
  const auto real = REAL(unlink);
  return Count([&] { return real(path); });
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  const auto real = REAL(unlinkat);
  return Count([&] { return real(folder, path, flags); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  const auto real = REAL(mkdir);
  return Count([&] { return real(path, mode); });
}

int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  const auto real = REAL(mkdirat);
  return Count([&] { return real(folder, path, mode); });
}

}  // extern "C"
