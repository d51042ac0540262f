// Reads env files: .deepspeed_env and the env_files of a job. Pure; nothing is ever executed.
//
//     # comment                      export NAME = value # note
//     NAME="value with $OTHER        NAME='literal, may
//     over several lines"            span lines'
//
// `$NAME` and `${NAME}` in unquoted and double-quoted values, and `~/` at their beginning, become
// parts that the node resolves. `\$`, and `\~` at the beginning, stand for the character itself; in
// double quotes so do \" \\ \`. Every other backslash stays. `$(...)` and backticks stay text, with
// a warning. Bytes are kept as they are; the file may have a BOM and CRLF.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/config/diagnostics.h"
#include "muster/v1/types.pb.h"

namespace muster {

// Reads an env file. `file` is its path as the user knows it; it appears in diagnostics and in
// EnvAssignment.source. Assignments come in file order, repeated names included, because a later
// line may refer to an earlier one; a repeat with another value is warned about. Variables that the
// launcher owns and those of one host are left out, with one warning per name. Messages never hold
// a value.
std::vector<v1::EnvAssignment> ParseEnvFile(std::string_view text, std::string_view file,
                                            v1::EnvLayer layer, Diagnostics& diagnostics);

// A value that is taken as it is. `source` as Origin::Text gives it.
v1::EnvAssignment LiteralEnv(std::string_view name, std::string_view value, v1::EnvLayer layer,
                             std::string source);

// Text behind `NAME=` that ParseEnvFile reads back to exactly these bytes. `value` has no NUL.
std::string QuoteEnvValue(std::string_view value);

// True when `value` has `$NAME` or `${NAME}` in it.
bool MentionsVariable(std::string_view value);

}  // namespace muster
