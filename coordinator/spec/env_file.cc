#include "coordinator/spec/env_file.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/config/text.h"
#include "coordinator/spec/env_names.h"
#include "coordinator/spec/env_value.h"

namespace muster {
namespace {

constexpr size_t kMaxEnvFileBytes = 4 << 20;

// Every `\r\n` as `\n`, when all line ends are such. In a file of LF lines a carriage return inside
// quotes is data.
std::string WithoutCarriageReturns(std::string_view text) {
  for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) {
    if (at == 0 || text[at - 1] != '\r') return std::string(text);
  }
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && (i + 1 == text.size() || text[i + 1] == '\n')) continue;
    out += text[i];
  }
  return out;
}

class EnvFileParser {
 public:
  EnvFileParser(std::string_view text, std::string_view file, v1::EnvLayer layer,
                Diagnostics& diagnostics)
      : text_(text), file_(file), layer_(layer), diagnostics_(diagnostics) {}

  std::vector<v1::EnvAssignment> Parse() {
    while (at_ < text_.size()) ParseLine();
    ReportNames();
    return std::move(assignments_);
  }

 private:
  // What is known about a name after the whole file was read.
  struct Name {
    size_t last = 0;  // Index of its newest assignment.
    int first_line = 0;
    int last_line = 0;
    size_t ignored = 0;
    bool changes = false;
  };

  void Error(int line, std::string message) { diagnostics_.Error(file_, line, std::move(message)); }

  // The rest of the present line, without taking it.
  std::string_view RestOfLine() const {
    std::string_view rest = std::string_view(text_).substr(at_);
    return rest.substr(0, rest.find('\n'));
  }

  void SkipBlanks() {
    while (at_ < text_.size() && IsBlank(text_[at_])) ++at_;
  }

  void NextLine() {
    at_ = std::min(text_.find('\n', at_), text_.size());
    if (at_ < text_.size()) ++at_;
    ++line_;
  }

  void ParseLine() {
    SkipBlanks();
    std::string_view rest = RestOfLine();
    if (rest.ends_with('\r')) rest.remove_suffix(1);
    if (rest.empty() || rest.front() == '#') return NextLine();
    const size_t equals = rest.find('=');
    if (equals == std::string_view::npos) {
      Error(line_, "expected NAME=value, found no '=' (a value of several lines needs quotes)");
      return NextLine();
    }
    std::string_view name = Trim(rest.substr(0, equals));
    if (name.starts_with("export") && name.size() > 6 && IsBlank(name[6]))
      name = Trim(name.substr(6));
    if (std::string problem = NameProblem(name); !problem.empty()) {
      Error(line_, std::move(problem));
      return NextLine();
    }
    at_ += equals + 1;
    SkipBlanks();
    ParseValue(name);
  }

  // Says what is wrong with a name without showing it: the line may be the middle of somebody's
  // key.
  static std::string NameProblem(std::string_view name) {
    if (name.empty()) return "expected NAME=value, found nothing before '='";
    if (IsValidEnvName(name)) return {};
    if (IsDigit(name.front())) return "invalid name: it begins with a digit";
    for (size_t i = 0; i < name.size(); ++i) {
      if (IsAlpha(name[i]) || IsDigit(name[i]) || name[i] == '_') continue;
      const size_t length = std::max<size_t>(Utf8Length(name.substr(i)), 1);
      return fmt::format(
          "invalid name: {} before '=', expected letters, digits and '_' (a value of several "
          "lines needs quotes)",
          name[i] == ' ' ? "a blank" : Quoted(name.substr(i, length)));
    }
    return {};
  }

  void ParseValue(std::string_view name) {
    const char first = at_ < text_.size() ? text_[at_] : '\n';
    if (first == '"' || first == '\'') return ParseQuoted(name, first);
    std::string_view value = RestOfLine();
    if (value.ends_with('\r')) value.remove_suffix(1);
    // A note needs a blank before it: colours and anchors have '#' in them.
    const bool blank_before = at_ > 0 && IsBlank(text_[at_ - 1]);
    for (size_t hash = value.find('#'); hash != std::string_view::npos;
         hash = value.find('#', hash + 1)) {
      if (hash == 0 ? blank_before : IsBlank(value[hash - 1])) {
        value = value.substr(0, hash);
        break;
      }
    }
    Add(name, Trim(value), Quoting::kNone, line_);
    NextLine();
  }

  void ParseQuoted(std::string_view name, char quote) {
    const int first_line = line_;
    const size_t begin = at_ + 1;
    const std::optional<size_t> end = ClosingQuote(begin, quote);
    if (!end) {
      Error(first_line, fmt::format("the quote {} of {} is never closed", quote, Quoted(name)));
      return NextLine();
    }
    const std::string_view value = std::string_view(text_).substr(begin, *end - begin);
    line_ += static_cast<int>(std::count(value.begin(), value.end(), '\n'));
    at_ = *end + 1;
    std::string_view rest = RestOfLine();
    if (rest.ends_with('\r')) rest.remove_suffix(1);
    const std::string_view behind = Trim(rest);
    const bool note = behind.starts_with('#') && IsBlank(rest.front());
    if (!behind.empty() && !note) {
      Error(first_line,
            fmt::format(
                "text behind the closing quote {} of {}{} (quote the whole value, or none of it)",
                quote, Quoted(name), line_ == first_line ? "" : fmt::format(" on line {}", line_)));
    } else {
      Add(name, value, quote == '"' ? Quoting::kDouble : Quoting::kSingle, first_line);
    }
    NextLine();
  }

  std::optional<size_t> ClosingQuote(size_t at, char quote) {
    // Looked for once: a file of open quotes must not take quadratic time.
    if (at >= (quote == '"' ? no_double_from_ : no_single_from_)) return std::nullopt;
    const std::string_view stops = quote == '"' ? "\"\\" : "'";
    size_t i = at;
    while ((i = text_.find_first_of(stops, i)) != std::string::npos) {
      if (text_[i] == quote) return i;
      i += 2;  // A backslash in double quotes: the byte behind it never closes.
    }
    (quote == '"' ? no_double_from_ : no_single_from_) = at;
    return std::nullopt;
  }

  void Add(std::string_view name, std::string_view value, Quoting quoting, int line) {
    Name& known = names_[name];
    if (known.first_line == 0) known.first_line = line;
    if (IsLauncherOwned(name) || IsPerHost(name)) {
      ++known.ignored;
      return;
    }
    v1::EnvAssignment assignment;
    assignment.set_name(std::string(name));
    assignment.set_layer(layer_);
    assignment.set_source(Origin{std::string(file_), line}.Text());
    ValueNotes notes;
    AppendParts(value, quoting, assignment, notes);
    if (notes.command_substitution) {
      diagnostics_.Warn(
          file_, line,
          fmt::format("{}: $(...) and backticks stay text, commands are never run", Quoted(name)));
    }
    if (notes.braced_expression) {
      diagnostics_.Warn(
          file_, line,
          fmt::format("{}: only $NAME and ${{NAME}} are expanded, this ${{...}} stays text",
                      Quoted(name)));
    }
    if (known.last_line != 0 && !Refers(assignment, name) &&
        !SameParts(assignments_[known.last], assignment)) {
      known.changes = true;
    }
    known.last = assignments_.size();
    known.last_line = line;
    assignments_.push_back(std::move(assignment));
  }

  // `PATH=$PATH:/opt` after `PATH=/bin` adds to the value, it does not contradict it.
  static bool Refers(const v1::EnvAssignment& assignment, std::string_view name) {
    return std::any_of(assignment.parts().begin(), assignment.parts().end(),
                       [&](const v1::EnvPart& part) { return part.variable() == name; });
  }

  static bool SameParts(const v1::EnvAssignment& a, const v1::EnvAssignment& b) {
    return std::equal(a.parts().begin(), a.parts().end(), b.parts().begin(), b.parts().end(),
                      [](const v1::EnvPart& x, const v1::EnvPart& y) {
                        return x.part_case() == y.part_case() && x.literal() == y.literal() &&
                               x.variable() == y.variable();
                      });
  }

  void ReportNames() {
    std::vector<std::pair<std::string_view, const Name*>> sorted;
    for (const auto& [name, known] : names_) sorted.emplace_back(name, &known);
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return a.second->first_line < b.second->first_line;
    });
    for (const auto& [name, known] : sorted) {
      if (known->ignored > 0) {
        diagnostics_.Warn(
            file_, known->first_line,
            fmt::format(
                "{} is ignored{}: {}", Quoted(name),
                known->ignored > 1 ? fmt::format(", here and on {} more lines", known->ignored - 1)
                                   : "",
                IsLauncherOwned(name) ? "the launcher sets it for every rank"
                                      : "it belongs to one host and is never carried to another"));
      } else if (known->changes) {
        diagnostics_.Warn(
            file_, known->last_line,
            fmt::format("{} has another value on line {}; the last one, this, is used",
                        Quoted(name), known->first_line));
      }
    }
  }

  const std::string text_;
  const std::string_view file_;
  const v1::EnvLayer layer_;
  Diagnostics& diagnostics_;
  size_t at_ = 0;
  int line_ = 1;
  size_t no_double_from_ = SIZE_MAX;
  size_t no_single_from_ = SIZE_MAX;
  std::vector<v1::EnvAssignment> assignments_;
  absl::flat_hash_map<std::string_view, Name> names_;
};

}  // namespace

std::vector<v1::EnvAssignment> ParseEnvFile(std::string_view text, std::string_view file,
                                            v1::EnvLayer layer, Diagnostics& diagnostics) {
  const std::optional<std::string_view> body = TextBody(text, file, kMaxEnvFileBytes, diagnostics);
  if (!body) return {};
  EnvFileParser parser(WithoutCarriageReturns(*body), file, layer, diagnostics);
  return parser.Parse();
}

}  // namespace muster
