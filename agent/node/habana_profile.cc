#include "agent/node/habana_profile.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "common/io/unique_fd.h"

namespace muster {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} * 1024;
// Of one value; a path is shorter than 4 KiB.
constexpr size_t kMaxValueBytes = size_t{64} * 1024;
constexpr std::array<std::string_view, 5> kNames = {"DATA_LOADER_AEON_LIB_PATH", "GC_KERNEL_PATH",
                                                    "HABANA_LOGS", "HABANA_PLUGINS_LIB_PATH",
                                                    "HABANA_SCAL_BIN_PATH"};

using Parts = std::vector<v1::EnvPart>;

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

// The name that `text` begins with; empty: none.
std::string_view NameAt(std::string_view text) {
  const size_t end =
      static_cast<size_t>(std::find_if_not(text.begin(), text.end(), IsNameByte) - text.begin());
  const bool is_name = end > 0 && !(text[0] >= '0' && text[0] <= '9');
  return is_name ? text.substr(0, end) : std::string_view();
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (IsBlank(text.back()) || text.back() == '\r')) text.remove_suffix(1);
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  return text;
}

void AddLiteral(std::string_view text, Parts& parts) {
  if (parts.empty() || !parts.back().has_literal()) parts.emplace_back().set_literal("");
  parts.back().mutable_literal()->append(text);
}

// The value of an assignment, up to the end of the line; nothing when it takes a shell to know it.
class ValueReader {
 public:
  explicit ValueReader(std::string_view text) : text_(text) {}

  std::optional<Parts> Read() {
    AddLiteral("", parts_);
    if (text_ == "~" || text_.starts_with("~/")) {
      parts_.emplace_back().set_home(true);
      text_.remove_prefix(1);
    }
    while (!text_.empty()) {
      const char c = text_.front();
      if (IsBlank(c))
        return OnlyACommentFollows() ? std::optional(std::move(parts_)) : std::nullopt;
      const bool read = c == '\''   ? SingleQuoted()
                        : c == '"'  ? DoubleQuoted()
                        : c == '\\' ? Escaped()
                        : c == '$'  ? Reference()
                                    : Bare();
      if (!read) return std::nullopt;
    }
    return std::move(parts_);
  }

 private:
  bool OnlyACommentFollows() const {
    const std::string_view rest = Trimmed(text_);
    return rest.empty() || rest.starts_with('#');
  }

  void Take(size_t count) {
    AddLiteral(text_.substr(0, count), parts_);
    text_.remove_prefix(count);
  }

  bool Bare() {
    // What has a meaning of its own to a shell, and `~`, which has one behind a colon.
    constexpr std::string_view kSpecial = "~`;&|<>()*?[]{}!";
    if (kSpecial.find(text_.front()) != std::string_view::npos) return false;
    Take(1);
    return true;
  }

  bool Escaped() {
    text_.remove_prefix(1);
    if (text_.empty()) return false;
    Take(1);
    return true;
  }

  bool SingleQuoted() {
    const size_t end = text_.find('\'', 1);
    if (end == std::string_view::npos) return false;
    text_.remove_prefix(1);
    Take(end - 1);
    text_.remove_prefix(1);
    return true;
  }

  bool DoubleQuoted() {
    text_.remove_prefix(1);
    while (!text_.empty() && text_.front() != '"') {
      const char c = text_.front();
      if (c == '`' || c == '\\') return false;
      if (c != '$') {
        Take(1);
      } else if (!Reference()) {
        return false;
      }
    }
    if (text_.empty()) return false;
    text_.remove_prefix(1);
    return true;
  }

  // `$NAME` or `${NAME}`.
  bool Reference() {
    text_.remove_prefix(1);
    const bool braces = text_.starts_with('{');
    if (braces) text_.remove_prefix(1);
    const std::string_view name = NameAt(text_);
    if (name.empty()) return false;
    parts_.emplace_back().set_variable(std::string(name));
    text_.remove_prefix(name.size());
    if (!braces) return true;
    if (!text_.starts_with('}')) return false;
    text_.remove_prefix(1);
    return true;
  }

  std::string_view text_;
  Parts parts_;
};

// A name that the text sets; `parts` is nothing when its value is not known.
struct Variable {
  std::optional<Parts> parts;
  size_t line = 0;
};

class Profile {
 public:
  void AddLine(std::string_view line, size_t number) {
    line = Trimmed(line);
    if (line.empty() || line.front() == '#') return;
    if (Opens(line)) ++depth_;
    if (depth_ > 0 || !TakePlain(line, number)) {
      ForgetNamesIn(line);
      // It does not end with its line, or so it seems: what follows may be anything.
      if (line.ends_with('\\') || line.find("<<") != std::string_view::npos || HasOddQuotes(line)) {
        depth_ = kForever;
      }
    }
    if (Closes(line) && depth_ > 0 && depth_ < kForever) --depth_;
  }

  std::vector<v1::EnvAssignment> Known() const {
    std::vector<v1::EnvAssignment> known;
    for (const std::string_view name : kNames) {
      const auto found = variables_.find(name);
      if (found == variables_.end() || !found->second.parts) continue;
      v1::EnvAssignment& one = known.emplace_back();
      one.set_name(std::string(name));
      one.set_layer(v1::ENV_LAYER_AGENT);
      one.set_source(fmt::format("{}:{}", kHabanaProfile, found->second.line));
      for (const v1::EnvPart& part : *found->second.parts) *one.add_parts() = part;
    }
    return known;
  }

 private:
  static bool HasOddQuotes(std::string_view line) {
    return std::count(line.begin(), line.end(), '\'') % 2 != 0 ||
           std::count(line.begin(), line.end(), '"') % 2 != 0;
  }

  static bool Opens(std::string_view line) {
    for (const std::string_view word : {"if", "case", "for", "while", "until"}) {
      if (NameAt(line) == word && (line.size() == word.size() || !IsNameByte(line[word.size()]))) {
        return true;
      }
    }
    return line.ends_with('{') || line.ends_with('(') || line.starts_with('{') ||
           line.starts_with('(');
  }

  static bool Closes(std::string_view line) {
    for (const std::string_view word : {"fi", "esac", "done", "}", ")"}) {
      if (line == word || line.starts_with(std::string(word) + " ") ||
          line.starts_with(std::string(word) + ";")) {
        return true;
      }
      // A whole block on one line.
      if (Opens(line) && line.ends_with(word) && line.size() > word.size() &&
          !IsNameByte(line[line.size() - word.size() - 1])) {
        return true;
      }
    }
    return false;
  }

  // True when the line is an assignment, or an export of what was assigned, and nothing else.
  bool TakePlain(std::string_view line, size_t number) {
    if (line.starts_with("export") && line.size() > 6 && IsBlank(line[6])) {
      line = Trimmed(line.substr(6));
      if (NameAt(line) == line) return true;
    }
    const std::string_view name = NameAt(line);
    if (name.empty() || name.size() == line.size() || line[name.size()] != '=') return false;
    const std::optional<Parts> parts = ValueReader(line.substr(name.size() + 1)).Read();
    if (!parts) return false;
    Variable variable{Resolved(*parts), number};
    variables_.insert_or_assign(std::string(name), std::move(variable));
    return true;
  }

  // With what names of the text itself stand for; nothing when that is not known, or too long.
  std::optional<Parts> Resolved(const Parts& parts) const {
    Parts resolved;
    size_t bytes = 0;
    const auto add = [&](const v1::EnvPart& part) {
      bytes += part.ByteSizeLong();
      if (part.has_literal()) {
        AddLiteral(part.literal(), resolved);
      } else {
        resolved.push_back(part);
      }
    };
    for (const v1::EnvPart& part : parts) {
      const auto found = part.has_variable() ? variables_.find(part.variable()) : variables_.end();
      if (found == variables_.end()) {
        add(part);
      } else if (!found->second.parts) {
        return std::nullopt;
      } else {
        for (const v1::EnvPart& inner : *found->second.parts) add(inner);
      }
      if (bytes > kMaxValueBytes) return std::nullopt;
    }
    return resolved;
  }

  void ForgetNamesIn(std::string_view line) {
    while (!line.empty()) {
      const std::string_view name = NameAt(line);
      if (name.empty()) {
        line.remove_prefix(1);
        continue;
      }
      variables_[std::string(name)].parts = std::nullopt;
      line.remove_prefix(name.size());
    }
  }

  static constexpr size_t kForever = SIZE_MAX / 2;

  std::map<std::string, Variable, std::less<>> variables_;
  // Of blocks that are open; kForever and more: nothing is known any more.
  size_t depth_ = 0;
};

}  // namespace

std::vector<v1::EnvAssignment> ParseHabanaProfile(std::string_view text) {
  Profile profile;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    profile.AddLine(text.substr(0, end), ++number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return profile.Known();
}

std::vector<v1::EnvAssignment> ReadHabanaProfile(const std::string& sysroot) {
  const std::string path = sysroot + kHabanaProfile;
  // A FIFO must not hold the loop up.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return {};
  std::string text(kMaxFileBytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(fd.get(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return {};
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  if (size > kMaxFileBytes) return {};
  text.resize(size);
  return ParseHabanaProfile(text);
}

}  // namespace muster
