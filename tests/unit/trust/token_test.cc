#include "coordinator/trust/token.h"

#include <gmock/gmock.h>

#include "common/base/annotate.h"
#include "common/crypto/digest.h"
#include "common/crypto/join_token.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

const WallTime kNow{std::chrono::seconds(1'800'000'000)};

TEST(CreateToken, KeepsTheKeyAndNotTheSecret) {
  const std::string pin = Sha256("ca");
  const absl::StatusOr<NewToken> made =
      CreateToken({.bound_name = "node-1", .bound_network = "10.0.0.0/8", .uses = 3}, pin, kNow);
  ASSERT_TRUE(made.ok()) << made.status();
  const absl::StatusOr<JoinToken> token = ParseToken(made->text);
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->pin, pin);
  EXPECT_EQ(made->stored, (StoredToken{.id = token->id,
                                       .key = TokenKey(*token),
                                       .role = IdentityKind::kAgent,
                                       .bound_name = "node-1",
                                       .bound_network = "10.0.0.0/8",
                                       .uses_left = 3,
                                       .created_at = kNow,
                                       .expires_at = kNow + std::chrono::hours(1)}));
  EXPECT_NE(made->stored.key, token->secret);
}

TEST(CreateToken, TellsAllThatIsWrong) {
  const absl::StatusOr<NewToken> made = CreateToken({.role = IdentityKind::kUser,
                                                     .bound_network = "10.0.0.1/8",
                                                     .uses = 0,
                                                     .life = std::chrono::hours(24 * 365)},
                                                    Sha256("ca"), kNow);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  for (const char* part : {"needs the user's name", "10.0.0.1/8", "uses, not 0", "30 days"}) {
    EXPECT_THAT(std::string(MessageOf(made.status())), HasSubstr(part));
  }
}

TEST(CreateToken, ANumberIsNoUser) {
  for (const char* name : {"0", "1000", "65534"}) {
    const auto made =
        CreateToken({.role = IdentityKind::kUser, .bound_name = name}, Sha256("ca"), kNow);
    EXPECT_THAT(std::string(MessageOf(made.status())), HasSubstr("is a number")) << name;
  }
  EXPECT_TRUE(
      CreateToken({.role = IdentityKind::kUser, .bound_name = "user7"}, Sha256("ca"), kNow).ok());
}

TEST(CreateToken, MakesNoAdmins) {
  for (const IdentityKind role : {IdentityKind::kAdmin, IdentityKind::kCoordinator}) {
    EXPECT_FALSE(CreateToken({.role = role, .bound_name = "x"}, Sha256("ca"), kNow).ok());
  }
}

}  // namespace
}  // namespace muster
