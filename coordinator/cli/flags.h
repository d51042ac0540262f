// Flags of one command: declares them, parses a command line against them and prints their help.
// `-` and `_` mean the same inside a flag's name. Not thread-safe; touches nothing but what it is
// given.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

class Flags {
 public:
  // Takes the value and returns what is wrong with it, empty when nothing is.
  using Setter = std::function<std::string(std::string_view value)>;

  // `usage` follows the program's name ("logs JOB [flags]"); `about` is one paragraph.
  Flags(std::string usage, std::string about);

  // `names`: long name without dashes, then maybe a comma and one letter: "follow,f".
  void Switch(std::string_view names, bool* out, std::string help);
  void Text(std::string_view names, std::string placeholder, std::string* out, std::string help);
  void Value(std::string_view names, std::string placeholder, Setter set, std::string help);
  // The next positional argument. A required one that is missing is an error.
  void Positional(std::string name, std::string* out, bool required = true);
  // Every further positional argument.
  void Rest(std::string name, std::vector<std::string>* out);

  // The beginning of one of these names is taken for it where it is no flag in full and fits no
  // other of them; with `among_all`, no other flag at all. Names must outlive this.
  void AllowShort(std::span<const std::string_view> names, bool among_all = false);

  // All problems at once, one per line. `--help` and `-h` end parsing early and are never an error.
  absl::Status Parse(std::span<const std::string> arguments);
  // Index of the first argument that is neither a flag nor the value of one, for commands whose
  // rest belongs to another program; `arguments.size()` when there is none. A `--` in front of it
  // is skipped.
  size_t FirstPositional(std::span<const std::string> arguments) const;
  bool help_wanted() const { return help_wanted_; }
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    char letter = 0;
    std::string placeholder;  // empty: takes no value
    Setter set;
    std::string help;
  };
  struct Argument {
    std::string name;
    std::string* out;
    bool required;
  };

  const Flag* Find(std::string_view name) const;
  const Flag* FindLetter(char letter) const;
  std::string Unknown(std::string_view written, std::string_view name) const;

  std::string usage_;
  std::string about_;
  std::vector<Flag> flags_;
  std::vector<std::string_view> short_names_;
  bool short_among_all_ = false;
  std::vector<Argument> positionals_;
  std::string rest_name_;
  std::vector<std::string>* rest_ = nullptr;
  bool help_wanted_ = false;
};

// Words of `candidates` that `word` may have been meant to be: a start of it, or few letters apart.
// Empty when none is close.
std::string ClosestWord(std::string_view word, std::span<const std::string> candidates);

}  // namespace muster
