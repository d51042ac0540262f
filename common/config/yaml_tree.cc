#include "common/config/yaml_tree.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "common/config/text.h"

namespace muster {
namespace {

// Ends the parse after a limit was exceeded and reported.
struct LimitExceeded {};

// The word for "nothing" that was written at `pos`, or empty. yaml-cpp tells `~`, `null` and no
// text apart by position only, and for no text gives the position of what comes next, which may be
// a key.
std::string_view NullWord(std::string_view text, int pos, bool is_key) {
  if (pos < 0 || static_cast<size_t>(pos) >= text.size()) return {};
  std::string_view rest = text.substr(static_cast<size_t>(pos));
  const auto skip_blanks = [&] {
    while (!rest.empty() && IsBlank(rest.front())) rest.remove_prefix(1);
  };
  if (rest.starts_with('&')) {  // An anchor stands in front.
    rest.remove_prefix(std::min(rest.find_first_of(" \t\r\n"), rest.size()));
    skip_blanks();
  }
  for (const std::string_view word : {"~", "null", "Null", "NULL"}) {
    if (!rest.starts_with(word)) continue;
    rest.remove_prefix(word.size());
    if (!rest.empty() &&
        std::string_view(" \t\r\n,]}:").find(rest.front()) == std::string_view::npos) {
      return {};
    }
    skip_blanks();
    return rest.starts_with(':') == is_key ? word : std::string_view{};
  }
  return {};
}

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, std::string_view file, YamlTree& tree,
              Diagnostics& diagnostics)
      : text_(text), file_(file), tree_(tree), diagnostics_(diagnostics) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      Error(mark.line + 1, "a second document begins here, only one is read");
      throw LimitExceeded{};
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const bool is_key = !open_.empty() && open_.back().node->kind == YamlNode::Kind::kMap &&
                        open_.back().key == nullptr;
    const std::string_view word = NullWord(text_, mark.pos, is_key);
    YamlNode& node =
        NewNode(word.empty() ? YamlNode::Kind::kNull : YamlNode::Kind::kScalar, mark, anchor);
    node.text = word;
    // Without text the position is that of whatever comes next.
    if (word.empty() && !open_.empty() && open_.back().key != nullptr)
      node.line = open_.back().key->line;
    Attach(node);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      Error(mark.line + 1, "alias to something that contains it");
      throw LimitExceeded{};
    }
    alias_weight_ += found->second->weight;
    if (alias_weight_ > kMaxAliasWeight) {
      Error(mark.line + 1, "aliases stand for too much text");
      throw LimitExceeded{};
    }
    Attach(*found->second);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (tag != "?" && tag != "!" && tag != "tag:yaml.org,2002:str") TagError(mark, tag);
    YamlNode& node = NewNode(YamlNode::Kind::kScalar, mark, anchor);
    node.text = value;
    node.weight += value.size();
    if (value.find('\0') != std::string::npos) Error(node.line, "NUL character in a value");
    Attach(node);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kSequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { Close(); }

 private:
  // A sequence or map that is not complete. `key` waits for its value.
  struct OpenNode {
    YamlNode* node = nullptr;
    const YamlNode* key = nullptr;
    YAML::anchor_t anchor = 0;
    absl::flat_hash_map<std::string_view, int> lines_of_keys;
  };

  void Error(int line, std::string message) { diagnostics_.Error(file_, line, std::move(message)); }

  void TagError(const YAML::Mark& mark, const std::string& tag) {
    Error(mark.line + 1, fmt::format("tags such as {} are not known here", Quoted(tag)));
  }

  YamlNode& NewNode(YamlNode::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (tree_.nodes.size() >= kMaxYamlNodes) {
      Error(mark.line + 1, fmt::format("more than {} values", kMaxYamlNodes));
      throw LimitExceeded{};
    }
    YamlNode& node = tree_.nodes.emplace_back();
    node.kind = kind;
    node.line = mark.line + 1;
    // Sequences and maps become known when they are complete, so that none can contain itself.
    const bool complete = kind == YamlNode::Kind::kNull || kind == YamlNode::Kind::kScalar;
    if (anchor != 0 && complete) anchors_[anchor] = &node;
    return node;
  }

  void Open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    if (tag != "?" && tag != "!" && !tag.empty()) TagError(mark, tag);
    if (open_.size() >= kMaxYamlDepth) {
      Error(mark.line + 1, fmt::format("more than {} levels", kMaxYamlDepth));
      throw LimitExceeded{};
    }
    YamlNode& node = NewNode(kind, mark, anchor);
    open_.push_back({&node, nullptr, anchor, {}});
  }

  void Close() {
    OpenNode done = std::move(open_.back());
    open_.pop_back();
    if (done.anchor != 0) anchors_[done.anchor] = done.node;
    Attach(*done.node);
  }

  // Puts a complete node where it belongs.
  void Attach(const YamlNode& node) {
    if (open_.empty()) {
      tree_.root = &node;
      return;
    }
    OpenNode& parent = open_.back();
    parent.node->weight += node.weight;
    if (parent.node->kind == YamlNode::Kind::kSequence) {
      parent.node->items.push_back(&node);
    } else if (parent.key == nullptr) {
      parent.key = &node;
    } else {
      AddEntry(parent, *parent.key, node);
      parent.key = nullptr;
    }
  }

  void AddEntry(OpenNode& map, const YamlNode& key, const YamlNode& value) {
    if (key.kind != YamlNode::Kind::kScalar) {
      Error(key.line, "a key must be one word");
      return;
    }
    if (key.text == "<<") {
      Error(key.line, "'<<' does not merge here (write the keys out)");
      return;
    }
    const auto [it, is_new] = map.lines_of_keys.try_emplace(key.text, key.line);
    if (!is_new) {
      Error(key.line,
            fmt::format("key {} is given twice, first on line {}", Quoted(key.text), it->second));
      return;
    }
    map.node->entries.emplace_back(&key, &value);
  }

  std::string_view text_;
  std::string_view file_;
  YamlTree& tree_;
  Diagnostics& diagnostics_;
  std::vector<OpenNode> open_;
  absl::flat_hash_map<YAML::anchor_t, const YamlNode*> anchors_;
  size_t alias_weight_ = 0;
  int documents_ = 0;
};

// Whether the line opens a block scalar (`key: |`), whose lines may begin with any blanks.
bool OpensBlockScalar(std::string_view line) {
  if (const size_t note = line.find(" #"); note != std::string_view::npos)
    line = line.substr(0, note);
  line = Trim(line);
  while (!line.empty() && (IsDigit(line.back()) || line.back() == '+' || line.back() == '-')) {
    line.remove_suffix(1);
  }
  if (line.empty() || (line.back() != '|' && line.back() != '>')) return false;
  line = Trim(line.substr(0, line.size() - 1));
  return line.empty() || line.ends_with(':') || line.ends_with('-');
}

// Reports tabs in the indentation of lines, and replaces them with blanks so that the rest of the
// file can be checked as well. Returns whether there were any.
bool ReplaceTabs(std::string& text, std::string_view file, Diagnostics& diagnostics) {
  bool found = false;
  int line = 0;
  constexpr size_t kNoBlock = std::string_view::npos;
  size_t block_indent = kNoBlock;  // Indentation of the line that opened a block scalar.
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    std::string_view content = rest.substr(0, end);
    rest.remove_prefix(end);
    ++line;
    const size_t spaces = std::min(content.find_first_not_of(' '), content.size());
    const size_t indent = std::min(content.find_first_not_of(" \t"), content.size());
    const bool blank =
        indent == content.size() || content[indent] == '\n' || content[indent] == '\r';
    if (!blank && spaces <= block_indent) block_indent = kNoBlock;
    if (block_indent == kNoBlock) {
      if (spaces < indent && !blank && content[indent] != '#') {
        diagnostics.Error(file, line, "indented with a tab (use blanks)");
        found = true;
      }
      for (const char c : content.substr(0, indent)) out += c == '\t' ? "  " : " ";
      content.remove_prefix(indent);
      if (OpensBlockScalar(content.substr(0, content.find_first_of("\r\n")))) block_indent = spaces;
    }
    out += content;
  }
  text = std::move(out);
  return found;
}

bool CheckUtf8(std::string_view text, std::string_view file, Diagnostics& diagnostics) {
  int line = 1;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) {
      diagnostics.Error(file, line, fmt::format("byte {} is not UTF-8", Quoted(text.substr(0, 1))));
      return false;
    }
    if (text.front() == '\n') ++line;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

YamlTree ParseYaml(std::string_view text, std::string_view file, size_t max_bytes,
                   Diagnostics& diagnostics) {
  YamlTree tree;
  const std::optional<std::string_view> body = TextBody(text, file, max_bytes, diagnostics);
  if (!body || !CheckUtf8(*body, file, diagnostics)) return tree;
  std::string clean(*body);
  const bool had_tabs = ReplaceTabs(clean, file, diagnostics);
  const int last_line = static_cast<int>(std::count(clean.begin(), clean.end(), '\n')) + 1;
  try {
    std::istringstream in(clean);
    YAML::Parser parser(in);
    TreeBuilder builder(clean, file, tree, diagnostics);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const LimitExceeded&) {
    tree.root = nullptr;
  } catch (const YAML::Exception& error) {
    tree.root = nullptr;
    // Once tabs were guessed away, what the parser says may be about the guess.
    if (!had_tabs) {
      diagnostics.Error(file, std::clamp(error.mark.line + 1, 1, last_line),
                        fmt::format("not valid YAML: {}", Printable(error.msg)));
    }
  }
  return tree;
}

}  // namespace muster
