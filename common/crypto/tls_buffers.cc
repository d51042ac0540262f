#include "common/crypto/tls_buffers.h"

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "common/crypto/openssl.h"

namespace muster {
namespace {

// Called by OpenSSL at the end of SSL_new.
void OnNewConnection(void* object, void*, CRYPTO_EX_DATA*, int, long, void*) {
  SSL* const connection = static_cast<SSL*>(object);
  SSL_set_mode(connection, SSL_MODE_RELEASE_BUFFERS);
  (void)SSL_set_num_tickets(connection, 0);
}

// Bytes on their way in one direction. Takes no memory while there are none.
class Pipe {
 public:
  explicit Pipe(size_t most) : most_(most) {}

  // How many it took, and gave.
  size_t Write(const char* bytes, size_t count) {
    count = std::min(count, most_ - size());
    if (begin_ > 0) bytes_.erase(0, std::exchange(begin_, 0));
    bytes_.append(bytes, count);
    return count;
  }
  size_t Read(char* bytes, size_t count) {
    count = bytes_.copy(bytes, count, begin_);
    begin_ += count;
    if (begin_ == bytes_.size()) {
      // An assignment would keep the memory.
      std::string().swap(bytes_);
      begin_ = 0;
    }
    return count;
  }
  size_t size() const { return bytes_.size() - begin_; }

 private:
  const size_t most_;
  std::string bytes_;
  size_t begin_ = 0;
};

// One end of a pair. The other end keeps the pipes that both use.
struct End {
  std::shared_ptr<Pipe> in;
  std::shared_ptr<Pipe> out;
};

End* EndOf(BIO* bio) { return static_cast<End*>(BIO_get_data(bio)); }

int WriteEnd(BIO* bio, const char* bytes, int count) {
  BIO_clear_retry_flags(bio);
  if (bytes == nullptr || count <= 0) return 0;
  const size_t taken = EndOf(bio)->out->Write(bytes, static_cast<size_t>(count));
  if (taken > 0) return static_cast<int>(taken);
  BIO_set_retry_write(bio);
  return -1;
}

int ReadEnd(BIO* bio, char* bytes, int count) {
  BIO_clear_retry_flags(bio);
  if (bytes == nullptr || count <= 0) return 0;
  const size_t given = EndOf(bio)->in->Read(bytes, static_cast<size_t>(count));
  if (given > 0) return static_cast<int>(given);
  BIO_set_retry_read(bio);
  return -1;
}

long ControlEnd(BIO* bio, int command, long number, void*) {
  switch (command) {
    case BIO_CTRL_PENDING:
      return static_cast<long>(EndOf(bio)->in->size());
    case BIO_CTRL_WPENDING:
      return static_cast<long>(EndOf(bio)->out->size());
    case BIO_CTRL_GET_CLOSE:
      return BIO_get_shutdown(bio);
    case BIO_CTRL_SET_CLOSE:
      BIO_set_shutdown(bio, static_cast<int>(number));
      return 1;
    case BIO_CTRL_FLUSH:
    case BIO_CTRL_DUP:
      return 1;
    default:
      return 0;
  }
}

int DestroyEnd(BIO* bio) {
  if (bio == nullptr) return 0;
  delete EndOf(bio);
  BIO_set_data(bio, nullptr);
  return 1;
}

BIO_METHOD* MakeMethod() {
  BIO_METHOD* method = BIO_meth_new(BIO_TYPE_BIO, "pair without idle buffers");
  MustHold(method != nullptr && BIO_meth_set_write(method, WriteEnd) == 1 &&
               BIO_meth_set_read(method, ReadEnd) == 1 &&
               BIO_meth_set_ctrl(method, ControlEnd) == 1 &&
               BIO_meth_set_destroy(method, DestroyEnd) == 1,
           "make a pair of BIOs");
  return method;
}

// 0: OpenSSL's own default, room for the largest record of TLS.
std::shared_ptr<Pipe> MakePipe(size_t most) {
  constexpr size_t kDefaultBytes = size_t{17} * 1024;
  return std::make_shared<Pipe>(most == 0 ? kDefaultBytes : most);
}

BIO* MakeEnd(std::shared_ptr<Pipe> in, std::shared_ptr<Pipe> out) {
  static BIO_METHOD* const method = MakeMethod();
  BIO* bio = BIO_new(method);
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, new End{std::move(in), std::move(out)});
  BIO_set_init(bio, 1);
  return bio;
}

}  // namespace

void ReleaseIdleTlsBuffers() {
  // Data of an application that a connection may carry: there is none, but who reserves a place for
  // it hears of every connection. Without a place (no memory) they take more, that is all.
  [[maybe_unused]] static const int place =
      SSL_get_ex_new_index(0, nullptr, &OnNewConnection, nullptr, nullptr);
}

}  // namespace muster

// gRPC asks OpenSSL for a pair of BIOs per connection, and its own takes two buffers of 17 KiB for
// good. This one stands in for it: the same limits and answers for what gRPC does with a pair, but
// memory only for bytes that are there.
extern "C" int BIO_new_bio_pair(BIO** one, size_t one_bytes, BIO** other, size_t other_bytes) {
  // A size is that of what is written to its end.
  const std::shared_ptr<muster::Pipe> from_one = muster::MakePipe(one_bytes);
  const std::shared_ptr<muster::Pipe> from_other = muster::MakePipe(other_bytes);
  *one = muster::MakeEnd(from_other, from_one);
  *other = muster::MakeEnd(from_one, from_other);
  if (*one != nullptr && *other != nullptr) return 1;
  BIO_free(*one);
  BIO_free(*other);
  *one = *other = nullptr;
  return 0;
}
