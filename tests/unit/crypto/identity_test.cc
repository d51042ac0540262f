#include "common/crypto/identity.h"

#include <gmock/gmock.h>

#include "common/base/annotate.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

const std::string kCluster = "01234567-89ab-cdef-0123-456789abcdef";

TEST(ParseIdentity, ReadsAllKinds) {
  const std::pair<std::string, Identity> cases[] = {
      {"/coordinator", {kCluster, IdentityKind::kCoordinator, ""}},
      {"/agent/node-1", {kCluster, IdentityKind::kAgent, "node-1"}},
      {"/agent/a", {kCluster, IdentityKind::kAgent, "a"}},
      {"/user/j.d_oe", {kCluster, IdentityKind::kUser, "j.d_oe"}},
      {"/admin/root", {kCluster, IdentityKind::kAdmin, "root"}}};
  for (const auto& [path, identity] : cases) {
    const absl::StatusOr<Identity> parsed = ParseIdentity("spiffe://" + kCluster + path);
    ASSERT_TRUE(parsed.ok()) << path << parsed.status();
    EXPECT_EQ(*parsed, identity) << path;
    EXPECT_EQ(ToUri(*parsed), "spiffe://" + kCluster + path);
  }
}

TEST(ParseIdentity, SaysWhichPartIsWrong) {
  const std::string good = "spiffe://" + kCluster;
  const std::pair<std::string, std::string> cases[] = {
      {"", "spiffe://"},
      {"SPIFFE://" + kCluster + "/coordinator", "spiffe://"},
      {"https://" + kCluster + "/coordinator", "spiffe://"},
      {"spiffe://cluster/coordinator", "cluster id"},
      {"spiffe://" + kCluster + ":1/coordinator", "cluster id"},
      {"spiffe://0123456789abcdef0123456789abcdef0123/coordinator", "cluster id"},
      {"spiffe://01234567-89AB-cdef-0123-456789abcdef/coordinator", "cluster id"},
      {good, "nobody"},
      {good + "/", "none of"},
      {good + "/Agent/a", "none of"},
      {good + "/server/a", "none of"},
      {good + "//agent/a", "none of"},
      {good + "/coordinator/", "coordinator"},
      {good + "/coordinator/x", "coordinator"},
      {good + "/coordinator?x", "none of"},
      {good + "/agent", "no valid name"},
      {good + "/agent/", "no valid name"},
      {good + "/agent/a/", "no valid name"},
      {good + "/agent/a/b", "no valid name"},
      {good + "/agent/-a", "no valid name"},
      {good + "/agent/a-", "no valid name"},
      {good + "/agent/a.b", "no valid name"},
      {good + "/agent/A", "no valid name"},
      {good + "/agent/%61", "no valid name"},
      {good + "/agent/..", "no valid name"},
      {good + "/agent/\xc3\xa4", "no valid name"},
      {good + "/agent/" + std::string(64, 'a'), "no valid name"},
      {good + "/user/.x", "no valid name"},
      {good + std::string("/agent/a\0", 9), "no valid name"},
      {good + std::string("/agent/a\0b", 10), "no valid name"}};
  for (const auto& [uri, part] : cases) {
    const absl::StatusOr<Identity> parsed = ParseIdentity(uri);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << uri;
    EXPECT_THAT(std::string(MessageOf(parsed.status())), HasSubstr(part)) << uri;
  }
}

TEST(ParseIdentity, TakesTheLongestName) {
  const std::string name(63, 'a');
  EXPECT_TRUE(ParseIdentity("spiffe://" + kCluster + "/agent/" + name).ok());
}

TEST(IdentityOfUris, WantsExactlyOne) {
  const std::string uri = "spiffe://" + kCluster + "/agent/a";
  EXPECT_TRUE(IdentityOfUris({uri}).ok());
  for (const std::vector<std::string>& uris :
       {std::vector<std::string>{}, {uri, uri}, {uri, "https://example.com"}, {"https://a"}}) {
    EXPECT_EQ(IdentityOfUris(uris).status().code(), absl::StatusCode::kPermissionDenied);
  }
}

TEST(NewClusterId, IsRandomAndValid) {
  const std::string id = NewClusterId();
  EXPECT_TRUE(IsClusterId(id)) << id;
  EXPECT_NE(id, NewClusterId());
}

}  // namespace
}  // namespace muster
