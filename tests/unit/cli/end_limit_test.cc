#include "coordinator/cli/end_limit.h"

#include <gtest/gtest.h>

#include <future>

namespace muster {
namespace {

TEST(EndLimit, EndsWhatWaitsForEver) {
  EXPECT_EXIT(
      {
        LimitEnd(120, std::chrono::seconds(1));
        std::promise<void>().get_future().wait();
      },
      testing::ExitedWithCode(120), "");
}

}  // namespace
}  // namespace muster
