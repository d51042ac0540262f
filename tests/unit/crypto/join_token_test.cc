#include "common/crypto/join_token.h"

#include <gmock/gmock.h>

#include "common/base/annotate.h"
#include "common/crypto/digest.h"
#include "common/crypto/join_frame.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Part(const std::string& text, int number) {
  size_t begin = 0;
  for (int i = 0; i < number; ++i) begin = text.find('.', begin) + 1;
  return text.substr(begin, text.find('.', begin) - begin);
}

TEST(ParseToken, ReadsWhatWasWritten) {
  const JoinToken token = MakeToken(Sha256("key"));
  const std::string text = FormatToken(token);
  for (const std::string& form : {text, text + "\n", "  " + text + "\r\n"}) {
    const absl::StatusOr<JoinToken> parsed = ParseToken(form);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, token);
  }
  EXPECT_EQ(Part(text, 0), "tk1");
  EXPECT_TRUE(IsTokenId(Part(text, 1)));
}

TEST(ParseToken, SaysWhichPartIsWrongAndNeverTheSecret) {
  const std::string text = FormatToken(MakeToken(Sha256("key")));
  const std::string id = Part(text, 1);
  const std::string secret = Part(text, 2);
  const std::string pin = Part(text, 3);
  const std::pair<std::string, std::string> cases[] = {
      {"", "is empty"},
      {" \n", "is empty"},
      {"K10abc::server:1", "does not begin with tk1."},
      {"tk2." + id + "." + secret + "." + pin, "does not begin with tk1."},
      {"tk1." + id + "." + secret, "4 parts"},
      {text + ".x", "has more"},
      {"tk1..." + pin, "id (2nd part) has 0 characters, and needs 8"},
      {"tk1." + id + "x." + secret + "." + pin, "id (2nd part) has 9"},
      {"tk1.1" + id.substr(1) + "." + secret + "." + pin, "id (2nd part) has a character"},
      {"tk1." + id + "." + secret.substr(1) + "." + pin, "secret (3rd part) has 31"},
      {"tk1." + id + ".A" + secret.substr(1) + "." + pin, "secret (3rd part) has a character"},
      {"tk1." + id + "." + secret + "." + pin.substr(2), "pin (4th part) has 50"},
      {"tk1." + id + "." + secret + "." + "!" + pin.substr(1), "pin (4th part) has a character"},
  };
  for (const auto& [wrong, part] : cases) {
    const absl::StatusOr<JoinToken> parsed = ParseToken(wrong);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(MessageOf(parsed.status())), HasSubstr(part)) << wrong;
    EXPECT_THAT(std::string(MessageOf(parsed.status())), Not(HasSubstr(secret.substr(1))));
  }
}

TEST(ParseToken, TellsEveryMistypedCharacter) {
  const std::string text = FormatToken(MakeToken(Sha256("key")));
  for (size_t i = 4; i + 1 < text.size(); ++i) {
    if (text[i] == '.') continue;
    std::string wrong = text;
    wrong[i] = wrong[i] == 'a' ? 'b' : 'a';
    const absl::StatusOr<JoinToken> parsed = ParseToken(wrong);
    ASSERT_FALSE(parsed.ok()) << i;
    EXPECT_THAT(std::string(MessageOf(parsed.status())), HasSubstr("mistyped")) << i;
  }
}

TEST(JoinProof, DependsOnEverything) {
  const JoinToken token = MakeToken(Sha256("key"));
  JoinToken other = token;
  other.secret[0] = static_cast<char>(other.secret[0] ^ 1);
  const std::string proof = JoinProof(TokenKey(token), "exporter", "csr");
  EXPECT_EQ(proof.size(), kSha256Bytes);
  EXPECT_EQ(proof, JoinProof(TokenKey(token), "exporter", "csr"));
  EXPECT_NE(proof, JoinProof(TokenKey(other), "exporter", "csr"));
  EXPECT_NE(proof, JoinProof(TokenKey(token), "exporteR", "csr"));
  EXPECT_NE(proof, JoinProof(TokenKey(token), "exporter", "csR"));
  other = token;
  other.id = "aaaaaaaa";
  EXPECT_NE(TokenKey(token), TokenKey(other));
}

TEST(JoinFrame, WaitsForTheWholeMessage) {
  const std::string frame = FrameJoinMessage("hello");
  EXPECT_EQ(frame, std::string("\0\0\0\5hello", 9));
  for (size_t size = 0; size < frame.size(); ++size) {
    const auto message = UnframeJoinMessage(std::string_view(frame).substr(0, size), 5);
    ASSERT_TRUE(message.ok()) << size;
    EXPECT_EQ(*message, std::nullopt);
  }
  const auto message = UnframeJoinMessage(frame, 5);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(*message, "hello");
}

TEST(JoinFrame, RefusesAtTheHeaderWhatIsTooLong) {
  for (const std::string& bytes :
       {std::string("\0\0\0\6", 4), std::string("\0\0\0\0", 4), std::string("\xff\xff\xff\xff", 4),
        FrameJoinMessage("a") + "b"}) {
    EXPECT_EQ(UnframeJoinMessage(bytes, 5).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace muster
