// What the files of this folder share about OpenSSL: owners of its objects and its errors as
// absl::Status. Not for others: no header outside common/crypto includes it.
#pragma once

#include <absl/status/status.h>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace muster {

template <auto Free>
struct OpensslFree {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
template <typename T, auto Free>
using OpensslPtr = std::unique_ptr<T, OpensslFree<Free>>;

using BioPtr = OpensslPtr<BIO, BIO_free_all>;
using DigestContextPtr = OpensslPtr<EVP_MD_CTX, EVP_MD_CTX_free>;
using PkeyContextPtr = OpensslPtr<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;
using X509ReqPtr = OpensslPtr<X509_REQ, X509_REQ_free>;
using X509StorePtr = OpensslPtr<X509_STORE, X509_STORE_free>;
using X509StoreContextPtr = OpensslPtr<X509_STORE_CTX, X509_STORE_CTX_free>;
using GeneralNamesPtr = OpensslPtr<GENERAL_NAMES, GENERAL_NAMES_free>;
using BignumPtr = OpensslPtr<BIGNUM, BN_free>;

// Takes all errors that OpenSSL has queued on this thread: "context: reason; reason". `code` is
// what it is for the caller.
absl::Status OpensslStatus(absl::StatusCode code, std::string_view context);

// For what fails only when memory runs out or OpenSSL is broken: ends the program.
void MustHold(bool holds, const char* what);

// A BIO that reads `bytes`, which must outlive it.
BioPtr ReadingBio(std::string_view bytes);
// What was written to a memory BIO.
std::string BytesOf(BIO* bio);

// The DER form that one of the i2d functions makes.
template <typename T, typename I2d>
std::string DerOf(T* object, I2d i2d) {
  unsigned char* der = nullptr;
  const int size = i2d(object, &der);
  MustHold(size >= 0, "i2d");
  std::string bytes(reinterpret_cast<const char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  return bytes;
}

// Times that WallTime cannot hold become the nearest that it can.
WallTime WallTimeOf(const ASN1_TIME* time);

inline const unsigned char* Unsigned(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace muster
