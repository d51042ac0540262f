// Settings of a daemon, each with who said it: flags, variables, its configuration file, and what
// it does by itself. The file is YAML, a map of known keys; every mistake in it is told with its
// line. Pure.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/diagnostics.h"
#include "common/config/yaml_tree.h"

namespace muster {

// Largest configuration file of a daemon.
inline constexpr size_t kMaxSettingsBytes = 1 << 20;

struct SettingKey {
  enum class Kind {
    kText,
    // `true` or `false`.
    kSwitch,
    kList,
  };

  // As in the file: `state_dir`.
  std::string name;
  Kind kind = Kind::kText;
  // Says what is wrong with one value; empty when nothing is. May be null.
  std::function<std::string(const std::string& value)> check;
  // An empty text is a value, not a mistake.
  bool may_be_empty = false;
};

class Settings {
 public:
  explicit Settings(std::vector<SettingKey> keys) : keys_(std::move(keys)) {}

  // Sets a key that has no value yet: who weighs more comes first. What is wrong with the values is
  // reported at `origin` in any case. `key` is one of the keys.
  void Give(std::string_view key, std::vector<std::string> values, const Origin& origin,
            Diagnostics& diagnostics);
  // The same for every key of a file.
  void GiveFile(std::string_view text, std::string_view file, Diagnostics& diagnostics);

  // The value; empty, false, no items when nobody has set the key.
  std::string Text(std::string_view key) const;
  // Who set the key, for messages: `--slots`, a variable, `FILE:LINE`; empty when nobody has.
  std::string OriginOf(std::string_view key) const;
  bool Switch(std::string_view key) const { return Text(key) == "true"; }
  std::vector<std::string> List(std::string_view key) const;

  // Every key that is set as YAML, which reads back to the same, with who set it as a comment.
  std::string Render() const;

 private:
  struct Value {
    std::vector<std::string> values;
    std::string origin;
  };

  void Check(const SettingKey& key, const std::string& value, const Origin& origin,
             Diagnostics& diagnostics) const;

  std::vector<SettingKey> keys_;
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace muster
