#include "agent/checks/json_file.h"

#include <google/protobuf/util/json_util.h>

namespace muster {

absl::StatusOr<google::protobuf::Struct> ParseJsonObject(const std::string& text) {
  google::protobuf::Struct object;
  const auto status = google::protobuf::util::JsonStringToMessage(text, &object);
  if (status.ok()) return object;
  const std::string reason(status.message().data(), status.message().size());
  return absl::InvalidArgumentError(reason.substr(0, reason.find('\n')));
}

}  // namespace muster
