#include "common/io/account.h"

#include <pwd.h>

#include <cerrno>
#include <vector>

namespace muster {

std::string AccountName(uid_t uid) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  std::vector<char> buffer(4096);
  passwd entry = {};
  passwd* found = nullptr;
  int error = 0;
  while ((error = ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found)) == ERANGE &&
         buffer.size() < kMostBytes) {
    buffer.resize(buffer.size() * 2);
  }
  return error == 0 && found != nullptr ? std::string(entry.pw_name) : std::to_string(uid);
}

}  // namespace muster
