// What a member of a cluster keeps: `<state>/trust/`, mode 0700, with
//
//   current -> gen-N/   key.pem (0600)  cert.pem  ca.pem  cluster
//   pending.pem         the key of a join or a renewal that has not been answered yet
//
// A new set is written into a folder of its own and becomes current with one rename, so that nobody
// ever sees a key without its certificate; the set before it is kept. `cluster` has one fact a
// line: `cluster ID`, `identity URI`, `coordinator HOST:PORT`. Blocks on the disk. Any thread, any
// number of processes.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <utility>
#include <vector>

#include "common/crypto/certificate.h"
#include "common/crypto/identity.h"
#include "common/crypto/private_key.h"

namespace muster {

struct Credentials {
  PrivateKey key;
  Certificate certificate;
  std::vector<Certificate> ca_bundle;
  // Who the certificate speaks for.
  Identity identity;
  // host:port, in the order to try.
  std::vector<std::string> coordinators;
};

// FAILED_PRECONDITION unless key, certificate, CA and identity fit each other. Times are not looked
// at.
absl::Status CheckCredentials(const Credentials& credentials);

class CredentialsDirectory {
 public:
  // Need not exist yet; its parent must.
  explicit CredentialsDirectory(std::string path) : path_(std::move(path)) {}

  // NOT_FOUND: never joined. FAILED_PRECONDITION: what is there cannot be used; the text says which
  // file and why.
  absl::StatusOr<Credentials> Load() const;
  // Makes them current, on the disk when it returns, and forgets the pending key.
  absl::Status Install(const Credentials& credentials) const;
  // The key to join or renew with, on the disk: always the same until Install, so that a request
  // whose answer was lost can be repeated. Never the current one.
  absl::StatusOr<PrivateKey> PendingKey() const;

  // Files of the current set, for who reads them by name.
  std::string KeyPath() const { return path_ + "/current/key.pem"; }
  std::string CertificatePath() const { return path_ + "/current/cert.pem"; }
  std::string CaPath() const { return path_ + "/current/ca.pem"; }

 private:
  absl::Status MakeDirectory() const;

  std::string path_;
};

}  // namespace muster
