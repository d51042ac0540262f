// The value of one line of an env file, cut into parts that the node joins. Pure.
#pragma once

#include <string>
#include <string_view>

#include "muster/v1/types.pb.h"

namespace muster {

// How the value stands in the file.
enum class Quoting { kNone, kSingle, kDouble };

// What the text of a value has that is kept as text although a shell would have acted on it.
struct ValueNotes {
  bool command_substitution = false;
  // `${NAME:-default}` and the like.
  bool braced_expression = false;
};

// Appends the parts of `text`, a value without its outer quotes, to `assignment`.
void AppendParts(std::string_view text, Quoting quoting, v1::EnvAssignment& assignment,
                 ValueNotes& notes);

}  // namespace muster
