#include "common/crypto/openssl.h"

#include <openssl/err.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace muster {

absl::Status OpensslStatus(absl::StatusCode code, std::string_view context) {
  std::string text(context);
  const char* separator = ": ";
  while (const unsigned long error = ERR_get_error()) {
    const char* reason = ERR_reason_error_string(error);
    text += separator;
    text += reason != nullptr ? reason : "error " + std::to_string(error);
    separator = "; ";
  }
  return absl::Status(code, text);
}

void MustHold(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "OpenSSL fails in %s; out of memory or a broken installation\n", what);
  std::abort();
}

BioPtr ReadingBio(std::string_view bytes) {
  BioPtr bio(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
  MustHold(bio != nullptr, "BIO_new_mem_buf");
  return bio;
}

std::string BytesOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(std::max(size, 0L))};
}

WallTime WallTimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return WallTime();
  // The nanoseconds of WallTime end in 2262.
  constexpr int64_t kFarthest = 9'000'000'000;
  const int64_t seconds = std::clamp<int64_t>(::timegm(&parts), -kFarthest, kFarthest);
  return WallTime(std::chrono::seconds(seconds));
}

}  // namespace muster
