// Small files of sysfs, and the numbered entries of its folders. Blocks as long as the driver does.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

// The text of an attribute without blanks and line ends at its end. Some attributes end in a
// newline, some do not; some cannot be read (ENODEV) unless the card works.
absl::StatusOr<std::string> ReadAttribute(const std::string& path);

// The same, empty when it cannot be read.
std::string AttributeOr(const std::string& path);

// A whole text as a number. Pure.
std::optional<uint32_t> ParseNumber(std::string_view text);

// Entries of a folder called `prefix` and a number, such as accel10, by number; at most `most`.
std::vector<std::pair<uint32_t, std::string>> NumberedEntries(const std::string& folder,
                                                              std::string_view prefix, size_t most);

// Names in a folder, sorted; at most `most`.
std::vector<std::string> EntriesOf(const std::string& folder, size_t most);

}  // namespace muster
