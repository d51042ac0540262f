#include "common/base/annotate.h"

#include <cerrno>

namespace muster {
namespace {

TEST(Annotate, PutsTheContextInFront) {
  const absl::Status status = Annotate(absl::NotFoundError("no such job"), "submit");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MessageOf(status), "submit: no such job");
}

TEST(Annotate, LeavesOkAlone) { EXPECT_TRUE(Annotate(absl::OkStatus(), "submit").ok()); }

TEST(ErrnoStatus, NamesTheError) {
  const absl::Status status = ErrnoStatus(ENOENT, "open hostfile");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MessageOf(status), "open hostfile: No such file or directory (ENOENT)");
}

}  // namespace
}  // namespace muster
