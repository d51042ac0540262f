// Which cards of a node a job gets that asks for a number of them. Pure; usable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace muster {

// Who has cards of a node, by module id.
struct CardUse {
  // Of jobs that run: nobody else gets these. In words, for those who want them.
  std::map<uint32_t, std::string> taken;
  // Of jobs that are ending, or held by a process when the node was last heard of: only given when
  // there are no others. In words.
  std::map<uint32_t, std::string> doubtful;
};

// `count` of `free`, ascending. Those that are not doubtful come first; among them a group in which
// Gaudi cards reach each other directly, and such that larger groups stay whole. `count` is at most
// the number of `free`, which is sorted.
std::vector<uint32_t> ChooseCards(size_t count, const std::vector<uint32_t>& free,
                                  const CardUse& use);

// "cards 0-3: alice, job k3x (llama); card 5: pid 4711 of bob (python3)". Empty: nobody has any.
std::string DescribeUse(const CardUse& use);

}  // namespace muster
