#include "coordinator/cli/flags.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster {
namespace {

std::string Normal(std::string_view name) {
  std::string normal(name);
  std::replace(normal.begin(), normal.end(), '_', '-');
  return normal;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string ClosestWord(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  size_t best_distance = 3;
  for (const std::string& candidate : candidates) {
    size_t distance = EditDistance(word, candidate);
    if (word.size() >= 3 && std::string_view(candidate).starts_with(word)) distance = 1;
    if (distance < best_distance && distance < word.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

Flags::Flags(std::string usage, std::string about)
    : usage_(std::move(usage)), about_(std::move(about)) {}

void Flags::Value(std::string_view names, std::string placeholder, Setter set, std::string help) {
  Flag flag;
  const size_t comma = names.find(',');
  flag.name = std::string(names.substr(0, comma));
  if (comma != std::string_view::npos) flag.letter = names[comma + 1];
  flag.placeholder = std::move(placeholder);
  flag.set = std::move(set);
  flag.help = std::move(help);
  flags_.push_back(std::move(flag));
}

void Flags::Switch(std::string_view names, bool* out, std::string help) {
  Value(
      names, "",
      [out](std::string_view) {
        *out = true;
        return std::string();
      },
      std::move(help));
}

void Flags::Text(std::string_view names, std::string placeholder, std::string* out,
                 std::string help) {
  Value(
      names, std::move(placeholder),
      [out](std::string_view value) {
        *out = std::string(value);
        return std::string();
      },
      std::move(help));
}

void Flags::Positional(std::string name, std::string* out, bool required) {
  positionals_.push_back({std::move(name), out, required});
}

void Flags::Rest(std::string name, std::vector<std::string>* out) {
  rest_name_ = std::move(name);
  rest_ = out;
}

void Flags::AllowShort(std::span<const std::string_view> names, bool among_all) {
  short_among_all_ = among_all;
  short_names_.insert(short_names_.end(), names.begin(), names.end());
}

const Flags::Flag* Flags::Find(std::string_view name) const {
  const std::string normal = Normal(name);
  const auto named = [this](std::string_view full) -> const Flag* {
    for (const Flag& flag : flags_) {
      if (flag.name == full) return &flag;
    }
    return nullptr;
  };
  if (const Flag* flag = named(normal)) return flag;
  std::string_view only;
  for (const std::string_view full : short_names_) {
    if (normal.empty() || !full.starts_with(normal) || full == only) continue;
    if (!only.empty()) return nullptr;
    only = full;
  }
  if (only.empty()) return nullptr;
  for (const Flag& flag : flags_) {
    if (short_among_all_ && flag.name != only && flag.name.starts_with(normal)) return nullptr;
  }
  return named(only);
}

const Flags::Flag* Flags::FindLetter(char letter) const {
  for (const Flag& flag : flags_) {
    if (flag.letter == letter) return &flag;
  }
  return nullptr;
}

std::string Flags::Unknown(std::string_view written, std::string_view name) const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) names.push_back(flag.name);
  const std::string closest = ClosestWord(Normal(name), names);
  if (closest.empty()) return fmt::format("unknown flag {}", written);
  return fmt::format("unknown flag {} (did you mean --{}?)", written, closest);
}

absl::Status Flags::Parse(std::span<const std::string> arguments) {
  std::vector<std::string> problems;
  std::vector<std::string> plain;
  bool flags_over = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (flags_over || argument.size() < 2 || argument[0] != '-') {
      plain.emplace_back(argument);
      continue;
    }
    if (argument == "--") {
      flags_over = true;
      continue;
    }
    if (argument == "--help" || argument == "-h") {
      help_wanted_ = true;
      return absl::OkStatus();
    }
    const bool is_long = argument.starts_with("--");
    std::string_view name = argument.substr(is_long ? 2 : 1);
    std::string_view value;
    bool has_value = false;
    const Flag* flag = nullptr;
    if (is_long) {
      if (const size_t equals = name.find('='); equals != std::string_view::npos) {
        value = name.substr(equals + 1);
        name = name.substr(0, equals);
        has_value = true;
      }
      flag = Find(name);
    } else {
      flag = FindLetter(name[0]);
      if (name.size() > 1) {
        value = name.substr(name[1] == '=' ? 2 : 1);
        has_value = true;
      }
    }
    if (flag == nullptr) {
      problems.push_back(Unknown(argument, name));
      continue;
    }
    if (flag->placeholder.empty() && has_value) {
      problems.push_back(fmt::format("--{} takes no value, got '{}'", flag->name, value));
      continue;
    }
    if (!flag->placeholder.empty() && !has_value) {
      if (i + 1 == arguments.size()) {
        problems.push_back(fmt::format("--{} needs a value: {}", flag->name, flag->placeholder));
        continue;
      }
      value = arguments[++i];
    }
    if (const std::string wrong = flag->set(value); !wrong.empty()) {
      problems.push_back(fmt::format("--{}: {}", flag->name, wrong));
    }
  }
  size_t used = 0;
  for (const Argument& argument : positionals_) {
    if (used < plain.size()) {
      *argument.out = plain[used++];
    } else if (argument.required) {
      problems.push_back(fmt::format("{} is missing", argument.name));
    }
  }
  for (; used < plain.size(); ++used) {
    if (rest_ != nullptr) {
      rest_->push_back(plain[used]);
    } else {
      problems.push_back(fmt::format("unexpected argument '{}'", plain[used]));
    }
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}", fmt::join(problems, "\n")));
}

size_t Flags::FirstPositional(std::span<const std::string> arguments) const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--") return i + 1;
    if (argument.size() < 2 || argument[0] != '-') return i;
    const bool is_long = argument.starts_with("--");
    const std::string_view name = argument.substr(is_long ? 2 : 1);
    const bool has_value = is_long ? name.find('=') != std::string_view::npos : name.size() > 1;
    const Flag* flag = is_long ? Find(name.substr(0, name.find('='))) : FindLetter(name[0]);
    if (flag != nullptr && !flag->placeholder.empty() && !has_value) ++i;
  }
  return arguments.size();
}

std::string Flags::Help() const {
  std::string text = fmt::format("usage: coordinator {}\n\n{}\n", usage_, about_);
  std::vector<std::pair<std::string, std::string>> rows;
  size_t width = 0;
  for (const Flag& flag : flags_) {
    std::string left = flag.letter != 0 ? fmt::format("-{}, ", flag.letter) : "    ";
    left += "--" + flag.name;
    if (!flag.placeholder.empty()) left += " " + flag.placeholder;
    width = std::max(width, left.size());
    rows.emplace_back(std::move(left), flag.help);
  }
  rows.emplace_back("-h, --help", "print this text");
  text += "\nflags:\n";
  for (const auto& [left, help] : rows) {
    std::string_view rest = help;
    std::string_view column = left;
    // Help of several lines continues in its own column.
    while (true) {
      const size_t end = rest.find('\n');
      text += fmt::format("  {:<{}}  {}\n", column, width, rest.substr(0, end));
      if (end == std::string_view::npos) break;
      rest = rest.substr(end + 1);
      column = "";
    }
  }
  return text;
}

}  // namespace muster
