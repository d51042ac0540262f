// Marks of slots that nobody may have.
#include "agent/shim/withheld.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "agent/shim/lease.h"
#include "common/base/utf8.h"
#include "common/io/unique_fd.h"
#include "tests/testing/temp_folder.h"

namespace muster::shim {
namespace {

using ::testing::HasSubstr;

class WithheldTest : public ::testing::Test {
 protected:
  int directory() const { return fd_.get(); }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  LeaseSet Leases() const {
    LeaseDirectory opened;
    opened.path = folder_.path();
    opened.fd.Reset(::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return LeaseSet(std::move(opened), "n", "job j", SlotKind::kPlain);
  }

 private:
  TempFolder folder_;
  UniqueFd fd_{::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
};

TEST_F(WithheldTest, EveryUserCanReadAMarkWhateverTheUmask) {
  const mode_t before = ::umask(0077);
  const std::string problem = MarkWithheld(directory(), "card.0", "n.j.1", "podman is gone");
  ::umask(before);
  ASSERT_EQ(problem, "");
  struct stat info = {};
  ASSERT_EQ(::stat(Path("card.0.withheld.n.j.1").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
}

TEST_F(WithheldTest, AMarkThatCannotBeReadWithholds) {
  ASSERT_EQ(MarkWithheld(directory(), "card.0", "n.j.1", "podman is gone"), "");
  // Nothing more can be opened.
  rlimit limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Withheld found = FindWithheld(directory(), "card.0");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_THAT(found.reason, HasSubstr("cannot be read"));
  EXPECT_EQ(FindWithheld(directory(), "card.0").reason, "podman is gone");
  EXPECT_EQ(FindWithheld(directory(), "card.1").file, "");
}

// Everybody may make files beside the leases, with any bytes in their names.
TEST_F(WithheldTest, WhatIsToldOfAMarkIsText) {
  ASSERT_EQ(MarkWithheld(directory(), "slot.n.0", "\xff\x1b[2J", "x"), "");
  LeaseSet leases = Leases();
  const std::string told = leases.TakeSlot(0);
  EXPECT_THAT(told, HasSubstr("is withheld: x"));
  EXPECT_EQ(told, ValidUtf8(told));
  EXPECT_EQ(told.find('\x1b'), std::string::npos);
}

TEST_F(WithheldTest, SlotsOfWhichOneCannotBeMarkedHaveNoMarks) {
  LeaseSet leases = Leases();
  ASSERT_EQ(leases.TakeSlot(0), "");
  ASSERT_EQ(leases.TakeSlot(1), "");
  std::filesystem::create_directory(Path("slot.n.1.withheld.a"));
  std::ofstream(Path("slot.n.1.withheld.a/x")) << "in the way";
  EXPECT_NE(leases.WithholdAll("a", "gone"), "");
  EXPECT_FALSE(std::filesystem::exists(Path("slot.n.0.withheld.a")));
  bool held = false;
  LeaseSet other = Leases();
  EXPECT_NE(other.TakeSlot(0, &held), "");
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace muster::shim
