#include "agent/devices/attribute.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

#include "common/base/annotate.h"
#include "common/base/utf8.h"
#include "common/io/unique_fd.h"

namespace muster {

absl::StatusOr<std::string> ReadAttribute(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return ErrnoStatus(errno, path);
  // No attribute is longer than a page.
  std::array<char, 4096> buffer;
  size_t size = 0;
  while (size < buffer.size()) {
    const ssize_t got = ::read(fd.get(), buffer.data() + size, buffer.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, path);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  std::string text(buffer.data(), size);
  text.resize(std::min(text.find('\0'), text.size()));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ' ||
                           text.back() == '\t')) {
    text.pop_back();
  }
  return ValidUtf8(std::move(text));
}

std::string AttributeOr(const std::string& path) { return ReadAttribute(path).value_or(""); }

std::optional<uint32_t> ParseNumber(std::string_view text) {
  uint32_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string> EntriesOf(const std::string& folder, size_t most) {
  std::vector<std::string> names;
  DIR* directory = ::opendir(folder.c_str());
  if (directory == nullptr) return names;
  while (const dirent* entry = ::readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    if (names.size() >= most) break;
    names.emplace_back(entry->d_name);
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::pair<uint32_t, std::string>> NumberedEntries(const std::string& folder,
                                                              std::string_view prefix,
                                                              size_t most) {
  std::vector<std::pair<uint32_t, std::string>> entries;
  // Control nodes and the like are in the same folder.
  for (const std::string& name : EntriesOf(folder, 4 * most)) {
    if (!name.starts_with(prefix)) continue;
    const std::optional<uint32_t> number =
        ParseNumber(std::string_view(name).substr(prefix.size()));
    if (number.has_value()) entries.emplace_back(*number, name);
  }
  std::sort(entries.begin(), entries.end());
  if (entries.size() > most) entries.resize(most);
  return entries;
}

}  // namespace muster
