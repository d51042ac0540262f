#include "common/crypto/tls_buffers.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

namespace muster {
namespace {

TEST(ReleaseIdleTlsBuffers, HoldsForEveryConnectionThatIsMadeAfterwards) {
  ReleaseIdleTlsBuffers();
  ReleaseIdleTlsBuffers();
  for (const SSL_METHOD* method : {TLS_method(), TLS_server_method(), TLS_client_method()}) {
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(method),
                                                                    &SSL_CTX_free);
    ASSERT_NE(context, nullptr);
    const std::unique_ptr<SSL, decltype(&SSL_free)> connection(SSL_new(context.get()), &SSL_free);
    ASSERT_NE(connection, nullptr);
    EXPECT_NE(SSL_get_mode(connection.get()) & SSL_MODE_RELEASE_BUFFERS, 0);
    EXPECT_NE(SSL_get_mode(connection.get()) & SSL_MODE_AUTO_RETRY, 0) << "the default stays";
    EXPECT_EQ(SSL_get_num_tickets(connection.get()), 0u);
  }
}

class BioPair : public ::testing::Test {
 protected:
  void Make(size_t one_bytes, size_t other_bytes) {
    BIO* one = nullptr;
    BIO* other = nullptr;
    ASSERT_EQ(BIO_new_bio_pair(&one, one_bytes, &other, other_bytes), 1);
    one_.reset(one);
    other_.reset(other);
  }
  // What can be read at once; empty: nothing at present.
  static std::string Read(BIO* bio, size_t most) {
    std::string bytes(most, '?');
    const int count = BIO_read(bio, bytes.data(), static_cast<int>(most));
    if (count < 0) {
      EXPECT_EQ(BIO_should_retry(bio) != 0 && BIO_should_read(bio) != 0, true);
      return "";
    }
    bytes.resize(static_cast<size_t>(count));
    return bytes;
  }
  static int Write(BIO* bio, const std::string& bytes) {
    return BIO_write(bio, bytes.data(), static_cast<int>(bytes.size()));
  }

  using Owner = std::unique_ptr<BIO, decltype(&BIO_free)>;
  Owner one_{nullptr, &BIO_free};
  Owner other_{nullptr, &BIO_free};
};

TEST_F(BioPair, IsTheOneOfThisProgram) {
  ReleaseIdleTlsBuffers();
  Make(0, 0);
  EXPECT_STREQ(BIO_method_name(one_.get()), "pair without idle buffers");
}

TEST_F(BioPair, PassesBytesBothWaysInOrder) {
  Make(0, 0);
  EXPECT_EQ(Write(one_.get(), "abcdef"), 6);
  EXPECT_EQ(Write(other_.get(), "xyz"), 3);
  EXPECT_EQ(BIO_ctrl_pending(other_.get()), 6u);
  EXPECT_EQ(BIO_ctrl_wpending(one_.get()), 6u);
  EXPECT_EQ(Read(other_.get(), 4), "abcd");
  EXPECT_EQ(Write(one_.get(), "gh"), 2);
  EXPECT_EQ(Read(other_.get(), 100), "efgh");
  EXPECT_EQ(Read(other_.get(), 100), "");
  EXPECT_EQ(Read(one_.get(), 100), "xyz");
  EXPECT_EQ(BIO_ctrl_pending(one_.get()), 0u);
}

TEST_F(BioPair, TakesNoMoreThanItsSize) {
  Make(10, 0);
  EXPECT_EQ(Write(one_.get(), "0123456"), 7);
  EXPECT_EQ(Write(one_.get(), "789abc"), 3) << "a part";
  EXPECT_EQ(Write(one_.get(), "abc"), -1);
  EXPECT_NE(BIO_should_retry(one_.get()), 0);
  EXPECT_NE(BIO_should_write(one_.get()), 0);
  EXPECT_EQ(Read(other_.get(), 2), "01");
  EXPECT_EQ(Write(one_.get(), "abc"), 2);
  EXPECT_EQ(Read(other_.get(), 100), "23456789ab");
  // OpenSSL's own: a record of TLS with what it adds.
  EXPECT_EQ(Write(other_.get(), std::string(100'000, 'x')), 17 * 1024);
}

TEST_F(BioPair, AnEndMayGoFirst) {
  Make(0, 0);
  EXPECT_EQ(Write(one_.get(), "last"), 4);
  one_.reset();
  EXPECT_EQ(Read(other_.get(), 100), "last");
  EXPECT_EQ(Read(other_.get(), 100), "");
  EXPECT_EQ(Write(other_.get(), "to nobody"), 9);
}

}  // namespace
}  // namespace muster
