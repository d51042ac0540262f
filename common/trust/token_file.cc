#include "common/trust/token_file.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>

namespace muster {

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path);
    if (!file) {
      return absl::InvalidArgumentError(fmt::format("--token-file: {} cannot be read", path));
    }
  }
  std::istream& source = path == "-" ? std::cin : file;
  constexpr size_t kMaxBytes = 4096;
  std::string text(kMaxBytes, '\0');
  source.read(text.data(), kMaxBytes);
  text.resize(static_cast<size_t>(source.gcount()));
  return text;
}

}  // namespace muster
