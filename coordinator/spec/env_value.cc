#include "coordinator/spec/env_value.h"

#include <algorithm>
#include <utility>

#include "common/config/text.h"
#include "coordinator/spec/env_file.h"
#include "coordinator/spec/env_names.h"

namespace muster {
namespace {

bool IsNameByte(char c) { return IsAlpha(c) || IsDigit(c) || c == '_'; }

// Length of the variable name at the beginning of `text`, 0 when there is none.
size_t NameLength(std::string_view text) {
  if (text.empty() || IsDigit(text.front())) return 0;
  size_t n = 0;
  while (n < text.size() && IsNameByte(text[n])) ++n;
  return n;
}

// Length of `$(...)` or `${...}`, nested ones included, or 0 when it is never closed.
size_t BracketLength(std::string_view text) {
  const char open = text[1];
  const char close = open == '(' ? ')' : '}';
  size_t depth = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == open) ++depth;
    if (text[i] == close && --depth == 0) return i + 1;
  }
  return 0;
}

class PartsWriter {
 public:
  explicit PartsWriter(v1::EnvAssignment& assignment) : assignment_(assignment) {}
  ~PartsWriter() { Flush(); }
  PartsWriter(const PartsWriter&) = delete;
  PartsWriter& operator=(const PartsWriter&) = delete;

  void Literal(std::string_view text) { literal_ += text; }
  void Variable(std::string_view name) {
    Flush();
    assignment_.add_parts()->set_variable(std::string(name));
  }
  void Home() {
    Flush();
    assignment_.add_parts()->set_home(true);
  }

 private:
  void Flush() {
    if (literal_.empty()) return;
    assignment_.add_parts()->set_literal(std::exchange(literal_, {}));
  }

  v1::EnvAssignment& assignment_;
  std::string literal_;
};

// Reads what begins with `$`. Returns the number of bytes taken.
size_t TakeDollar(std::string_view text, PartsWriter& parts, ValueNotes& notes, bool& closes) {
  if (const size_t length = NameLength(text.substr(1)); length > 0) {
    parts.Variable(text.substr(1, length));
    return 1 + length;
  }
  size_t taken = 1;
  if (text.starts_with("${") || text.starts_with("$(")) {
    const size_t length = text[1] == '{' ? NameLength(text.substr(2)) : 0;
    if (length > 0 && text.substr(2 + length, 1) == "}") {
      parts.Variable(text.substr(2, length));
      return length + 3;
    }
    (text[1] == '{' ? notes.braced_expression : notes.command_substitution) = true;
    // Once one is not closed, looking again for each later one would take quadratic time.
    const size_t whole = closes ? BracketLength(text) : 0;
    closes = whole > 0;
    taken = std::max<size_t>(whole, 2);
  }
  parts.Literal(text.substr(0, taken));
  return taken;
}

}  // namespace

void AppendParts(std::string_view text, Quoting quoting, v1::EnvAssignment& assignment,
                 ValueNotes& notes) {
  PartsWriter parts(assignment);
  if (quoting == Quoting::kSingle) {
    parts.Literal(text);
    return;
  }
  if (text == "~" || text.starts_with("~/")) {
    parts.Home();
    text.remove_prefix(1);
  } else if (text.starts_with("\\~")) {
    parts.Literal("~");
    text.remove_prefix(2);
  }
  const std::string_view escapable = quoting == Quoting::kDouble ? "\"\\$`" : "$";
  bool closes = true;
  while (!text.empty()) {
    const size_t special = std::min(text.find_first_of("\\$`"), text.size());
    parts.Literal(text.substr(0, special));
    text.remove_prefix(special);
    if (text.empty()) break;
    size_t taken = 1;
    if (text.front() == '\\') {
      const bool escape = text.size() > 1 && escapable.find(text[1]) != std::string_view::npos;
      taken = escape ? 2 : 1;
      parts.Literal(text.substr(escape ? 1 : 0, 1));
    } else if (text.front() == '$') {
      taken = TakeDollar(text, parts, notes, closes);
    } else {
      const size_t end = text.find('`', 1);
      notes.command_substitution = notes.command_substitution || end != std::string_view::npos;
      taken = end == std::string_view::npos ? 1 : end + 1;
      parts.Literal(text.substr(0, taken));
    }
    text.remove_prefix(taken);
  }
}

v1::EnvAssignment LiteralEnv(std::string_view name, std::string_view value, v1::EnvLayer layer,
                             std::string source) {
  v1::EnvAssignment assignment;
  assignment.set_name(std::string(name));
  if (!value.empty()) assignment.add_parts()->set_literal(std::string(value));
  assignment.set_layer(layer);
  assignment.set_source(std::move(source));
  return assignment;
}

std::string QuoteEnvValue(std::string_view value) {
  const bool plain = std::all_of(value.begin(), value.end(), [](char c) {
    return IsNameByte(c) || std::string_view("@%+=:,./-").find(c) != std::string_view::npos;
  });
  if (plain) return std::string(value);
  if (value.find('\'') == std::string_view::npos) return "'" + std::string(value) + "'";
  std::string quoted = value.starts_with('~') ? "\"\\" : "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\' || c == '$' || c == '`') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

bool MentionsVariable(std::string_view value) {
  for (size_t at = value.find('$'); at != std::string_view::npos; at = value.find('$', at + 1)) {
    std::string_view rest = value.substr(at + 1);
    const bool braced = rest.starts_with('{');
    if (braced) rest.remove_prefix(1);
    const size_t length = NameLength(rest);
    if (length > 0 && (!braced || rest.substr(length, 1) == "}")) return true;
  }
  return false;
}

}  // namespace muster
