// A YAML document as a tree in which every scalar has kept its text and every node its line. Pure.
// This file and its .cc are the only ones that know yaml-cpp; no exception leaves them.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/config/diagnostics.h"

namespace muster {

struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };
  using Entry = std::pair<const YamlNode*, const YamlNode*>;

  Kind kind = Kind::kNull;
  // Line of its first character, from 1.
  int line = 0;
  // kScalar: the text as written, quotes and escapes resolved. `~` and `null` are scalars with that
  // text; kNull is left for a value that was not written at all.
  std::string text;
  // kSequence: the items. Aliases point to the node that they name.
  std::vector<const YamlNode*> items;
  // kMap: keys and values in the order written. Keys are scalars and different.
  std::vector<Entry> entries;
  // Bytes and nodes below it, aliases counted as if they were written out.
  size_t weight = 1;
};

// Owns the nodes of one document.
struct YamlTree {
  std::deque<YamlNode> nodes;
  const YamlNode* root = nullptr;
};

// Most levels of a document.
inline constexpr size_t kMaxYamlDepth = 32;
// Most nodes of a document.
inline constexpr size_t kMaxYamlNodes = 100'000;
// Most bytes and nodes that aliases may stand for together: a few lines of aliases to aliases would
// otherwise fill any memory.
inline constexpr size_t kMaxAliasWeight = 1 << 20;

// Reads one document. Reports text that is not UTF-8, tabs as indentation, syntax errors, keys
// given twice, keys that are not scalars, tags, NUL characters, and limits. `root` is null when
// there is nothing to go on with; otherwise the tree is complete, even when errors were reported.
YamlTree ParseYaml(std::string_view text, std::string_view file, size_t max_bytes,
                   Diagnostics& diagnostics);

}  // namespace muster
