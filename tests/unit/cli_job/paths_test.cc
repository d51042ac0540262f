#include <gtest/gtest.h>

#include "coordinator/cli/client_env.h"

namespace muster {
namespace {

TEST(JoinPath, JoinsWithoutLooking) {
  const struct {
    const char* base;
    const char* path;
    const char* want;
  } cases[] = {
      {"/w", "a", "/w/a"},
      {"/w", "", "/w"},
      {"/w", ".", "/w"},
      {"/w/", "./a//b/", "/w/a/b"},
      {"/w", "/x/./y", "/x/y"},
      {"/w", "../a", "/w/../a"},
      {"/", "", "/"},
      {"jobs", "../h", "jobs/../h"},
      {"", "a", "a"},
      {".", "", "."},
      {"/w", "mon projet \xc3\xbc", "/w/mon projet \xc3\xbc"},
  };
  for (const auto& c : cases)
    EXPECT_EQ(JoinPath(c.base, c.path), c.want) << c.base << " " << c.path;
}

TEST(FolderOf, TakesTheLastComponentAway) {
  EXPECT_EQ(FolderOf("job.yaml"), ".");
  EXPECT_EQ(FolderOf("a/b.yaml"), "a");
  EXPECT_EQ(FolderOf("/job.yaml"), "/");
  EXPECT_EQ(FolderOf("../job.yaml"), "..");
}

TEST(ClientEnv, ExpandsOnlyItsOwnHome) {
  ClientEnv client;
  client.cwd = "/w";
  client.home = "/home/u";
  EXPECT_EQ(client.Absolute("~/x"), "/home/u/x");
  EXPECT_EQ(client.Absolute("~"), "/home/u");
  EXPECT_EQ(client.Absolute("~other/x"), "/w/~other/x");
  EXPECT_EQ(client.Absolute("x"), "/w/x");
  client.home.clear();
  EXPECT_EQ(client.Absolute("~/x"), "/w/~/x");
}

TEST(ClientEnv, FindsVariables) {
  ClientEnv client;
  client.environ = {{"A", "1"}, {"EMPTY", ""}};
  EXPECT_EQ(client.Get("A"), "1");
  EXPECT_EQ(client.Get("EMPTY"), "");
  EXPECT_FALSE(client.Get("B").has_value());
}

}  // namespace
}  // namespace muster
