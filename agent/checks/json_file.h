// Reads a configuration file of JSON far enough to say whether it is any. Pure.
#pragma once

#include <absl/status/statusor.h>
#include <google/protobuf/struct.pb.h>

#include <string>

namespace muster {

// The object that `text` is; INVALID_ARGUMENT with what is wrong with it.
absl::StatusOr<google::protobuf::Struct> ParseJsonObject(const std::string& text);

}  // namespace muster
