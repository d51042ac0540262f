// A test's hand on when a program dies: at its N-th write from its start, or from now. One owner;
// one program at a time.
#pragma once

#include <string>

#include "tests/campaign/every_write/kill_page.h"
#include "tests/integration/sandbox/command_run.h"

namespace muster::testing {

class KillPoint {
 public:
  // Keeps the page in `box`.
  explicit KillPoint(Sandbox& box);
  ~KillPoint();
  KillPoint(const KillPoint&) = delete;
  KillPoint& operator=(const KillPoint&) = delete;

  // The program that is started before Disarm dies at its `number`-th write.
  void Arm(uint64_t number, KillMoment moment);
  // Programs to come live; the one that was started stays as it is.
  void Disarm();
  // The running program dies at the `number`-th write from here on.
  void DieSoon(uint64_t number, KillMoment moment);
  // Of the program that was started last.
  uint64_t writes() const { return page_->writes; }

 private:
  Sandbox& box_;
  const std::string path_;
  KillPage* page_ = nullptr;
};

}  // namespace muster::testing
