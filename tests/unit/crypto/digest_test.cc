#include "common/crypto/digest.h"

#include <gtest/gtest.h>

#include "common/crypto/encoding.h"

namespace muster {
namespace {

TEST(Digest, Sha256OfAbc) {
  EXPECT_EQ(HexEncode(Sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HexEncode(Sha256({})),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Digest, HmacOfRfc4231) {
  EXPECT_EQ(HexEncode(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(HexEncode(HmacSha256({}, {})),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(Digest, HkdfOfRfc5869) {
  EXPECT_EQ(HexEncode(HkdfSha256(std::string(22, '\x0b'), {})),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
}

TEST(Digest, RandomBytesDiffer) {
  EXPECT_EQ(RandomBytes(16).size(), 16u);
  EXPECT_NE(RandomBytes(16), RandomBytes(16));
  EXPECT_EQ(RandomBytes(0), "");
}

TEST(Digest, ConstantTimeEqualComparesSizesToo) {
  EXPECT_TRUE(ConstantTimeEqual("abc", "abc"));
  EXPECT_TRUE(ConstantTimeEqual({}, {}));
  EXPECT_FALSE(ConstantTimeEqual("abc", "abd"));
  EXPECT_FALSE(ConstantTimeEqual("abc", "ab"));
}

TEST(Encoding, HexBothWays) {
  EXPECT_EQ(HexEncode(std::string_view("\x00\xff\x1a", 3)), "00ff1a");
  EXPECT_EQ(HexDecode("00Ff1a"), std::string("\x00\xff\x1a", 3));
  EXPECT_EQ(HexDecode(""), "");
  EXPECT_EQ(HexDecode("0"), std::nullopt);
  EXPECT_EQ(HexDecode("0g"), std::nullopt);
}

TEST(Encoding, Base32OfRfc4648) {
  const std::pair<const char*, const char*> cases[] = {{"", ""},
                                                       {"f", "my"},
                                                       {"fo", "mzxq"},
                                                       {"foo", "mzxw6"},
                                                       {"foob", "mzxw6yq"},
                                                       {"fooba", "mzxw6ytb"},
                                                       {"foobar", "mzxw6ytboi"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(Base32Encode(bytes), text);
    EXPECT_EQ(Base32Decode(text), bytes);
  }
}

TEST(Encoding, Base32RefusesASecondWriting) {
  // Upper case, padding, digits that are none, lengths of no bytes, bits that would be lost.
  for (const char* text : {"MY", "my======", "m1", "m", "mzx", "mzxw6y", "mz", "m "}) {
    EXPECT_EQ(Base32Decode(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace muster
