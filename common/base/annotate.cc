#include "common/base/annotate.h"

#include <cerrno>
#include <cstring>

namespace muster {

absl::Status ErrnoStatus(int error_number, std::string_view context) {
  return absl::Status(absl::ErrnoToStatusCode(error_number),
                      fmt::format("{}: {} ({})", context, strerrordesc_np(error_number),
                                  strerrorname_np(error_number)));
}

}  // namespace muster
