#include "agent/node/allow_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/annotate.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

AllowList Parse(std::string_view text) { return ParseAllowList(text, "allow_users").value(); }

TEST(AllowList, ReadsUsersGroupsAndComments) {
  const AllowList list = Parse("# who trains\n\n  alice # since May\r\n@trainers\n\tbob\t");
  EXPECT_EQ(list.users, (std::set<std::string, std::less<>>{"alice", "bob"}));
  EXPECT_EQ(list.groups, (std::set<std::string, std::less<>>{"trainers"}));
  EXPECT_FALSE(list.everybody);
}

TEST(AllowList, AnEmptyOneAllowsNobody) {
  const AllowList list = Parse("# nobody yet\n");
  EXPECT_TRUE(list.empty());
  EXPECT_FALSE(list.Allows("alice", 1000, {"trainers"}));
  EXPECT_FALSE(list.Allows("root", 0, {"root"}));
}

TEST(AllowList, RootAndSystemUsersAreAllowedByNameOnly) {
  const AllowList open = Parse("*\n@staff\n");
  EXPECT_TRUE(open.Allows("alice", 1000, {}));
  for (const uid_t uid : {0u, 1u, 999u, 65534u, 65535u, 4294967294u, 4294967295u}) {
    EXPECT_FALSE(open.Allows("daemon", uid, {"staff"})) << uid;
  }
  EXPECT_TRUE(Parse("daemon").Allows("daemon", 1, {}));
  EXPECT_TRUE(Parse("root").Allows("root", 0, {}));
}

TEST(AllowList, MembersOfAGroupAreAllowed) {
  const AllowList list = Parse("@trainers");
  EXPECT_TRUE(list.Allows("alice", 70000, {"trainers"}));
  EXPECT_FALSE(list.Allows("alice", 70000, {}));
}

TEST(AllowList, NamesEveryLineThatIsNoEntry) {
  const absl::Status status =
      ParseAllowList("alice bob\nok\n@\n-x\na,b\n", "/etc/muster/allow_users").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  const std::string text(MessageOf(status));
  for (const char* where : {":1:", ":3:", ":4:", ":5:"}) {
    EXPECT_THAT(text, HasSubstr(std::string("/etc/muster/allow_users") + where));
  }
  EXPECT_THAT(text, HasSubstr("got \"alice bob\""));
  EXPECT_THAT(text, ::testing::Not(HasSubstr(":2:")));
}

}  // namespace
}  // namespace muster
