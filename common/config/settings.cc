#include "common/config/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/config/text.h"
#include "common/config/yaml_reader.h"

namespace muster {
namespace {

// A scalar that every reader of YAML takes for this text.
std::string YamlScalar(std::string_view text) {
  const auto plain = [](char c) {
    return IsAlpha(c) || IsDigit(c) || c == '_' || c == '/' || c == '.' || c == '-';
  };
  if (!text.empty() && text.front() != '-' && std::all_of(text.begin(), text.end(), plain)) {
    return std::string(text);
  }
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace

void Settings::Check(const SettingKey& key, const std::string& value, const Origin& origin,
                     Diagnostics& diagnostics) const {
  if (value.empty()) {
    if (!key.may_be_empty) diagnostics.Error(origin, fmt::format("{} must not be empty", key.name));
    return;
  }
  if (!key.check) return;
  const std::string wrong = key.check(value);
  // It may repeat the value, which may hold anything.
  if (!wrong.empty()) diagnostics.Error(origin, fmt::format("{}: {}", key.name, Printable(wrong)));
}

void Settings::Give(std::string_view key, std::vector<std::string> values, const Origin& origin,
                    Diagnostics& diagnostics) {
  const auto known = std::find_if(keys_.begin(), keys_.end(),
                                  [&](const SettingKey& one) { return one.name == key; });
  for (const std::string& value : values) Check(*known, value, origin, diagnostics);
  values_.try_emplace(std::string(key), Value{std::move(values), origin.Text()});
}

void Settings::GiveFile(std::string_view text, std::string_view file, Diagnostics& diagnostics) {
  const YamlTree tree = ParseYaml(text, file, kMaxSettingsBytes, diagnostics);
  // A file with comments only.
  if (tree.root == nullptr || tree.root->kind == YamlNode::Kind::kNull) return;
  YamlReader reader(file, diagnostics);
  if (tree.root->kind != YamlNode::Kind::kMap) {
    reader.Error(*tree.root, "the file is a map of keys such as 'state_dir: /srv/muster'");
    return;
  }
  std::vector<YamlReader::Key> readers;
  for (const SettingKey& key : keys_) {
    readers.push_back({key.name, [&, this](const YamlNode& node) {
                         const Origin origin{std::string(file), node.line};
                         std::optional<std::string> one;
                         if (key.kind == SettingKey::Kind::kSwitch) {
                           one = reader.OneOf(node, key.name, {"true", "false"});
                         } else if (key.kind == SettingKey::Kind::kText) {
                           one = reader.Text(node, key.name, key.may_be_empty);
                         } else {
                           // Of a list, each item with its own line.
                           std::vector<std::string> items;
                           for (const YamlNode* item : reader.List(node, key.name, false)) {
                             Check(key, item->text, {std::string(file), item->line}, diagnostics);
                             items.push_back(item->text);
                           }
                           values_.try_emplace(key.name, Value{std::move(items), origin.Text()});
                         }
                         if (one) Give(key.name, {*one}, origin, diagnostics);
                       }});
  }
  reader.Section(*tree.root, "", readers);
}

std::string Settings::OriginOf(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? "" : found->second.origin;
}

std::string Settings::Text(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() || found->second.values.empty() ? "" : found->second.values.front();
}

std::vector<std::string> Settings::List(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::vector<std::string>{} : found->second.values;
}

std::string Settings::Render() const {
  std::string text;
  for (const SettingKey& key : keys_) {
    const auto found = values_.find(key.name);
    if (found == values_.end()) continue;
    std::vector<std::string> scalars;
    for (const std::string& value : found->second.values) scalars.push_back(YamlScalar(value));
    const std::string shown = key.kind == SettingKey::Kind::kList
                                  ? fmt::format("[{}]", fmt::join(scalars, ", "))
                                  : fmt::format("{}", fmt::join(scalars, ""));
    text +=
        fmt::format("{:<40} # {}\n", fmt::format("{}: {}", key.name, shown), found->second.origin);
  }
  return text;
}

}  // namespace muster
