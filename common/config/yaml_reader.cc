#include "common/config/yaml_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/base/annotate.h"
#include "common/config/byte_size.h"
#include "common/config/duration.h"
#include "common/config/text.h"

namespace muster {
namespace {

// `env` must never show text that was meant as an assignment: it may be a secret.
std::string_view KindOf(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kScalar:
      return "text";
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
  }
  return {};
}

}  // namespace

void YamlReader::WrongType(const YamlNode& node, std::string_view path, std::string_view expected,
                           bool show_text) {
  Error(node,
        fmt::format("{} must be {}, found {}", path, expected,
                    show_text && node.kind == YamlNode::Kind::kScalar ? Quoted(node.text)
                                                                      : std::string(KindOf(node))));
}

std::optional<std::string> YamlReader::Text(const YamlNode& node, std::string_view path,
                                            bool allow_empty) {
  if (node.kind != YamlNode::Kind::kScalar) {
    WrongType(node, path, "text");
    return std::nullopt;
  }
  if (node.text.empty() && !allow_empty) {
    Error(node, fmt::format("{} must not be empty", path));
    return std::nullopt;
  }
  return node.text;
}

std::optional<int64_t> YamlReader::Integer(const YamlNode& node, std::string_view path, int64_t min,
                                           int64_t max) {
  const std::optional<uint64_t> value = node.kind == YamlNode::Kind::kScalar
                                            ? ParseNumber(node.text, static_cast<uint64_t>(max))
                                            : std::nullopt;
  if (!value || static_cast<int64_t>(*value) < min) {
    WrongType(node, path, fmt::format("a whole number from {} to {}", min, max));
    return std::nullopt;
  }
  return static_cast<int64_t>(*value);
}

std::optional<Duration> YamlReader::Length(const YamlNode& node, std::string_view path,
                                           bool positive) {
  if (node.kind != YamlNode::Kind::kScalar) {
    WrongType(node, path, "a length of time such as 30s or 1h30m");
    return std::nullopt;
  }
  const absl::StatusOr<Duration> length = ParseDuration(node.text);
  if (!length.ok()) {
    Error(node, fmt::format("{}: {}", path, MessageOf(length.status())));
    return std::nullopt;
  }
  if (positive && *length <= Duration::zero()) {
    Error(node, fmt::format("{} must be longer than nothing", path));
    return std::nullopt;
  }
  return *length;
}

std::optional<uint64_t> YamlReader::Bytes(const YamlNode& node, std::string_view path,
                                          uint64_t min) {
  if (node.kind != YamlNode::Kind::kScalar) {
    WrongType(node, path, "a number of bytes such as 512MiB");
    return std::nullopt;
  }
  const absl::StatusOr<uint64_t> bytes = ParseByteSize(node.text);
  if (!bytes.ok()) {
    Error(node, fmt::format("{}: {}", path, MessageOf(bytes.status())));
    return std::nullopt;
  }
  if (*bytes < min) {
    Error(node,
          fmt::format("{} must be at least {} bytes, found {}", path, min, Quoted(node.text)));
    return std::nullopt;
  }
  return *bytes;
}

std::optional<std::string> YamlReader::OneOf(const YamlNode& node, std::string_view path,
                                             const std::vector<std::string_view>& words) {
  if (node.kind == YamlNode::Kind::kScalar &&
      std::find(words.begin(), words.end(), node.text) != words.end()) {
    return node.text;
  }
  WrongType(node, path,
            words.size() == 1
                ? std::string(*words.begin())
                : fmt::format("one of {}", fmt::join(words.begin(), words.end(), ", ")));
  return std::nullopt;
}

std::vector<const YamlNode*> YamlReader::List(const YamlNode& node, std::string_view path,
                                              bool allow_empty_items) {
  std::vector<const YamlNode*> items;
  if (node.kind != YamlNode::Kind::kSequence) {
    WrongType(node, path, "a list such as [a, b]", /*show_text=*/false);
    return items;
  }
  for (const YamlNode* item : node.items) {
    if (item->kind != YamlNode::Kind::kScalar) {
      WrongType(*item, fmt::format("every item of {}", path),
                "text (quote it where it looks like a map)");
    } else if (item->text.empty() && !allow_empty_items) {
      Error(*item, fmt::format("an item of {} is empty", path));
    } else {
      items.push_back(item);
    }
  }
  return items;
}

std::vector<std::string> YamlReader::TextList(const YamlNode& node, std::string_view path,
                                              bool allow_empty_items) {
  std::vector<std::string> texts;
  for (const YamlNode* item : List(node, path, allow_empty_items)) texts.push_back(item->text);
  return texts;
}

const std::vector<YamlNode::Entry>* YamlReader::Map(const YamlNode& node, std::string_view path) {
  if (node.kind == YamlNode::Kind::kMap) return &node.entries;
  WrongType(node, path, "a map such as {key: value}", /*show_text=*/false);
  return nullptr;
}

bool YamlReader::Section(const YamlNode& node, std::string_view path,
                         const std::vector<Key>& keys) {
  const std::vector<YamlNode::Entry>* entries = Map(node, path);
  if (entries == nullptr) return false;
  for (const auto& [key, value] : *entries) {
    const std::string_view name = key->text;
    const auto known =
        std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return k.name == name; });
    if (known != keys.end()) {
      known->read(*value);
      continue;
    }
    std::vector<std::string_view> names;
    // Only for errors that will be kept: there may be a hundred thousand.
    if (diagnostics_.errors.size() < Diagnostics::kMaxKept) {
      for (const Key& k : keys) names.push_back(k.name);
    }
    const std::string_view nearest = Nearest(name, names);
    Error(*key, fmt::format("unknown key {}{}{}", Quoted(name),
                            path.empty() ? "" : fmt::format(" in {}", path),
                            nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest)));
  }
  return true;
}

}  // namespace muster
