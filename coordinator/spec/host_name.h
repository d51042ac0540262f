// Hosts as people write them in hostfiles, job files and selections: names, addresses, ranges.
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// One token that names hosts, taken apart.
struct HostPattern {
  // What stands in front of `@`; empty when nothing does.
  std::string user;
  // Hosts in the order written; more than one only for a range. IPv6 addresses have no brackets.
  std::vector<std::string> hosts;
  // True when brackets were expanded.
  bool is_range = false;
  // What is wrong with the token; empty when nothing is.
  std::string error;
};

// Most hosts that one file or expression may name, ranges included.
inline constexpr size_t kMaxHosts = 100'000;

// Reads `[user@]NAME`, `NAME[1-8,12]`, an IPv4 address, or an IPv6 address bare or in brackets.
// Fails for ports and slot counts (`host:8`), invalid names, backwards ranges and repeated members.
// Each host of a range is taken off `budget`, in errors too; a range with more hosts than are left
// fails and leaves 0. One budget for all tokens of a file bounds the work that a small file can ask
// for.
HostPattern ParseHostPattern(std::string_view token, size_t& budget);

// Reads one name or address, as where only one makes sense. Empty when it is none.
std::string ParseOneHost(std::string_view token);

// The form in which two spellings of one host are equal: IPv6 addresses in canonical form,
// everything else as it is. Names are compared whole and with their case, as every grammar before
// did.
std::string HostKey(std::string_view host);

}  // namespace muster
