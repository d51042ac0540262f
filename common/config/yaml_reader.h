// Reads typed values out of a YAML tree and reports, with its line, every value that has another
// type, is out of range or is not known. Types follow from what a key means, not from how a scalar
// looks. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/config/diagnostics.h"
#include "common/config/yaml_tree.h"

namespace muster {

// Paths in the messages are those of the user: `restart.max_attempts`.
class YamlReader {
 public:
  // Reads the value of one key.
  using ReadValue = std::function<void(const YamlNode&)>;
  struct Key {
    std::string_view name;
    ReadValue read;
  };

  // `file` and `diagnostics` must outlive the reader.
  YamlReader(std::string_view file, Diagnostics& diagnostics)
      : file_(file), diagnostics_(diagnostics) {}

  void Error(const YamlNode& node, std::string message) {
    diagnostics_.Error(file_, node.line, std::move(message));
  }
  void Warn(const YamlNode& node, std::string message) {
    diagnostics_.Warn(file_, node.line, std::move(message));
  }
  std::string_view file() const { return file_; }
  Diagnostics& diagnostics() { return diagnostics_; }

  // A scalar with at least one character, or `allow_empty`.
  std::optional<std::string> Text(const YamlNode& node, std::string_view path,
                                  bool allow_empty = false);
  // A whole number from `min` to `max`.
  std::optional<int64_t> Integer(const YamlNode& node, std::string_view path, int64_t min,
                                 int64_t max);
  // A length of time; with `positive` more than nothing.
  std::optional<Duration> Length(const YamlNode& node, std::string_view path, bool positive);
  // A number of bytes, at least `min`.
  std::optional<uint64_t> Bytes(const YamlNode& node, std::string_view path, uint64_t min);
  // One of several words.
  std::optional<std::string> OneOf(const YamlNode& node, std::string_view path,
                                   const std::vector<std::string_view>& words);
  // A list of scalars, each with its line; those that are none are reported and left out.
  std::vector<const YamlNode*> List(const YamlNode& node, std::string_view path,
                                    bool allow_empty_items);
  std::vector<std::string> TextList(const YamlNode& node, std::string_view path,
                                    bool allow_empty_items);
  // A map with free keys. Nothing when it is none.
  const std::vector<YamlNode::Entry>* Map(const YamlNode& node, std::string_view path);
  // A map with known keys: reads each that is there, reports those that are not known.
  bool Section(const YamlNode& node, std::string_view path, const std::vector<Key>& keys);

 private:
  void WrongType(const YamlNode& node, std::string_view path, std::string_view expected,
                 bool show_text = true);

  std::string_view file_;
  Diagnostics& diagnostics_;
};

}  // namespace muster
