#include "tests/campaign/every_write/kill_point.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/io/unique_fd.h"

namespace muster::testing {

KillPoint::KillPoint(Sandbox& box) : box_(box), path_(box.Path("kill-page")) {
  EXPECT_EQ(::access(KILL_AT_WRITE, R_OK), 0) << "build the target kill_at_write";
  const UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(::ftruncate(fd.get(), sizeof(KillPage)), 0);
  void* memory = ::mmap(nullptr, sizeof(KillPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  EXPECT_NE(memory, MAP_FAILED);
  page_ = static_cast<KillPage*>(memory);
}

KillPoint::~KillPoint() { ::munmap(page_, sizeof(KillPage)); }

void KillPoint::Arm(uint64_t number, KillMoment moment) {
  page_->writes = 0;
  page_->moment = moment;
  page_->last_write = number;
  box_.Set("LD_PRELOAD", KILL_AT_WRITE);
  box_.Set(kKillPageVariable, path_);
  // Of sanitized builds: theirs would be first.
  box_.Set("ASAN_OPTIONS", "verify_asan_link_order=0");
}

void KillPoint::Disarm() {
  for (const char* name : {"LD_PRELOAD", kKillPageVariable, "ASAN_OPTIONS"}) box_.Unset(name);
}

void KillPoint::DieSoon(uint64_t number, KillMoment moment) {
  page_->moment = moment;
  page_->last_write = page_->writes + number;
}

}  // namespace muster::testing
