// Loaded into a program before the C library (LD_PRELOAD), sets its wall clock apart from that of
// the machine: by the nanoseconds, a signed number of the machine's byte order, that the file named
// by WALL_CLOCK_FILE has at this moment. Other clocks stay as they are.
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace {

constexpr int64_t kSecond = 1000000000;

const volatile int64_t* MapOffset() {
  static const int64_t none = 0;
  const char* path = getenv("WALL_CLOCK_FILE");
  if (path == nullptr) return &none;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return &none;
  void* page = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  return page == MAP_FAILED ? &none : static_cast<const int64_t*>(page);
}

int Read(clockid_t clock, timespec* time) {
  if (syscall(SYS_clock_gettime, clock, time) != 0) return -1;
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return 0;
  // Set once; two threads that begin at the same time map the same file twice.
  static const volatile int64_t* offset = nullptr;
  if (offset == nullptr) offset = MapOffset();
  const int64_t now = time->tv_sec * kSecond + time->tv_nsec + *offset;
  time->tv_sec = now / kSecond;
  time->tv_nsec = now % kSecond;
  return 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept { return Read(clock, time); }

int gettimeofday(timeval* time, void*) noexcept {
  timespec now;
  if (Read(CLOCK_REALTIME, &now) != 0) return -1;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* result) noexcept {
  timespec now;
  (void)Read(CLOCK_REALTIME, &now);
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}
}
