#include "coordinator/spec/host_name.h"

#include <absl/container/flat_hash_set.h>
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "common/config/text.h"

namespace muster {
namespace {

constexpr size_t kMaxNameBytes = 253;  // RFC 1035.
// Serial numbers in names are long; more may not fit into 64 bits.
constexpr size_t kMaxDigits = 18;

bool IsZoneByte(char c) { return IsAlpha(c) || IsDigit(c) || c == '.' || c == '_' || c == '-'; }

bool IsIpv6(std::string_view text) {
  in6_addr address;
  const size_t percent = text.find('%');
  if (percent != std::string_view::npos) {
    const std::string_view zone = text.substr(percent + 1);
    if (zone.empty() || !std::all_of(zone.begin(), zone.end(), IsZoneByte)) return false;
  }
  return inet_pton(AF_INET6, std::string(text.substr(0, percent)).c_str(), &address) == 1;
}

bool IsIpv4(std::string_view text) {
  in_addr address;
  return inet_pton(AF_INET, std::string(text).c_str(), &address) == 1;
}

// What is wrong with a byte that no name has.
std::string ByteProblem(std::string_view name, size_t at) {
  if (name[at] == ',') {
    return fmt::format("invalid host name {}: one host per line, or a range such as node[1-8,12]",
                       Quoted(name));
  }
  if (name[at] == '-') {
    return fmt::format("invalid host name {}: no part may begin with '-'", Quoted(name));
  }
  const size_t length = std::max<size_t>(Utf8Length(name.substr(at)), 1);
  return fmt::format("invalid host name {}: found {}, expected letters, digits, '-', '_' and '.'",
                     Quoted(name), Quoted(name.substr(at, length)));
}

// What is wrong with a name without brackets and colons; empty when nothing is.
std::string NameProblem(std::string_view name) {
  if (name.empty()) return "the host name is empty";
  if (name.size() > kMaxNameBytes) {
    return fmt::format("host name {} is longer than {} bytes", Quoted(name), kMaxNameBytes);
  }
  bool numeric = true;
  bool dotted = false;
  bool label_begins = true;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '.' && !label_begins) {
      dotted = true;
      label_begins = true;
      continue;
    }
    if (c == '.') break;
    if (!IsDigit(c)) {
      numeric = false;
      if (!IsAlpha(c) && c != '_' && (c != '-' || label_begins)) return ByteProblem(name, i);
    }
    label_begins = false;
  }
  if (label_begins) {
    return fmt::format("invalid host name {}: nothing before, between or behind a dot",
                       Quoted(name));
  }
  if (numeric && dotted && !IsIpv4(name))
    return fmt::format("{} is not an IPv4 address", Quoted(name));
  return {};
}

// One element of a bracket: numbers from `first` to `last`, at least `width` digits each.
struct NumberRange {
  uint64_t first = 0;
  uint64_t last = 0;
  size_t width = 0;
  uint64_t count() const { return last - first + 1; }
};

std::string ParseRange(std::string_view element, NumberRange& range) {
  const size_t dash = element.find('-');
  const std::string_view first = element.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : element.substr(dash + 1);
  const auto low = ParseNumber(first, UINT64_MAX);
  const auto high = ParseNumber(last, UINT64_MAX);
  if (!low || !high || first.size() > kMaxDigits || last.size() > kMaxDigits) {
    return fmt::format("expected a number or a range such as 1-8 in brackets, found {}",
                       Quoted(element));
  }
  if (*high < *low) {
    return fmt::format("range {} runs backwards (write {}-{})", Quoted(element), last, first);
  }
  const bool padded = first.size() > 1 && first.front() == '0';
  if (last.size() > 1 && last.front() == '0' && last.size() != first.size()) {
    return fmt::format("the ends of range {} have different widths", Quoted(element));
  }
  range = {*low, *high, padded ? first.size() : 0};
  return {};
}

// A name cut at its brackets: a literal or a list of ranges each.
struct Piece {
  std::string_view literal;
  std::vector<NumberRange> ranges;
};

std::string CutAtBrackets(std::string_view name, std::vector<Piece>& pieces) {
  while (!name.empty()) {
    const size_t open = name.find_first_of("[]");
    if (open != 0) pieces.push_back({name.substr(0, open), {}});
    if (open == std::string_view::npos) break;
    const size_t close = name.find_first_of("[]", open + 1);
    if (name[open] == ']' || close == std::string_view::npos || name[close] == '[') {
      return "brackets do not match (no blanks and no brackets inside brackets)";
    }
    Piece piece;
    for (const std::string_view element : Split(name.substr(open + 1, close - open - 1), ',')) {
      NumberRange range;
      if (std::string error = ParseRange(element, range); !error.empty()) return error;
      piece.ranges.push_back(range);
    }
    pieces.push_back(std::move(piece));
    name.remove_prefix(close + 1);
  }
  return {};
}

// Every combination of the pieces, the last bracket running fastest.
std::vector<std::string> Expand(const std::vector<Piece>& pieces) {
  std::vector<std::string> names{""};
  for (const Piece& piece : pieces) {
    if (piece.ranges.empty()) {
      for (std::string& name : names) name += piece.literal;
      continue;
    }
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const NumberRange& range : piece.ranges) {
        for (uint64_t n = range.first; n <= range.last; ++n) {
          const fmt::format_int number(n);
          std::string& host = longer.emplace_back(name);
          host.append(range.width > number.size() ? range.width - number.size() : 0, '0');
          host.append(number.data(), number.size());
        }
      }
    }
    names = std::move(longer);
  }
  return names;
}

std::string ExpandRange(std::string_view name, size_t& budget, std::vector<std::string>& hosts) {
  std::vector<Piece> pieces;
  if (std::string error = CutAtBrackets(name, pieces); !error.empty()) {
    return fmt::format("{}: {}", Quoted(name), error);
  }
  // Counted before anything is expanded: eight brackets can stand for more hosts than fit in
  // memory.
  uint64_t total = 1;
  size_t literal_bytes = 0;
  for (const Piece& piece : pieces) {
    literal_bytes += piece.literal.size();
    if (piece.ranges.empty()) continue;
    uint64_t count = 0;
    for (const NumberRange& range : piece.ranges) {
      count = std::min<uint64_t>(count + range.count(), kMaxHosts + 1);
    }
    if (count > kMaxHosts || total * count > kMaxHosts) {
      budget = 0;
      return fmt::format("{} stands for more than {} hosts", Quoted(name), kMaxHosts);
    }
    total *= count;
  }
  if (total > budget) {
    budget = 0;
    return fmt::format("more than {} hosts with {}", kMaxHosts, Quoted(name));
  }
  budget -= total;
  if (literal_bytes > kMaxNameBytes || pieces.size() > kMaxNameBytes) {
    return fmt::format("host name {} is longer than {} bytes", Quoted(name), kMaxNameBytes);
  }
  hosts = Expand(pieces);
  absl::flat_hash_set<std::string_view> seen;
  for (const std::string& host : hosts) {
    if (!seen.insert(host).second)
      return fmt::format("{} names {} twice", Quoted(name), Quoted(host));
  }
  for (const std::string& host : hosts) {
    if (std::string error = NameProblem(host); !error.empty()) return error;
  }
  return {};
}

// Names with a colon that are no IPv6 address.
std::string ColonProblem(std::string_view name) {
  const size_t colon = name.rfind(':');
  const std::string_view host = name.substr(0, colon);
  const std::string_view behind = name.substr(colon + 1);
  if (ParseNumber(behind, UINT64_MAX) && (NameProblem(host).empty() || host.ends_with(']'))) {
    return fmt::format(
        "{} may be {} slots or a port: write '{} slots={}' for slots; a port is not needed, leave "
        "it out",
        Quoted(name), Printable(behind, 20), Printable(host, 60), Printable(behind, 20));
  }
  return fmt::format("{} is neither a host name nor an IPv6 address", Quoted(name));
}

}  // namespace

HostPattern ParseHostPattern(std::string_view token, size_t& budget) {
  HostPattern pattern;
  const size_t at = token.rfind('@');
  if (at != std::string_view::npos) {
    if (at == 0) {
      pattern.error = fmt::format("{}: the user in front of '@' is empty", Quoted(token));
      return pattern;
    }
    pattern.user = token.substr(0, at);
    token.remove_prefix(at + 1);
  }
  const size_t colon = token.find(':');
  if (colon != std::string_view::npos) {
    std::string_view address = token;
    if (token.starts_with('[') && token.ends_with(']')) address = token.substr(1, token.size() - 2);
    if (IsIpv6(address)) {
      pattern.hosts.emplace_back(address);
    } else {
      pattern.error = ColonProblem(token);
    }
    return pattern;
  }
  if (token.find_first_of("[]") != std::string_view::npos) {
    pattern.is_range = true;
    pattern.error = ExpandRange(token, budget, pattern.hosts);
  } else {
    pattern.error = NameProblem(token);
    pattern.hosts.emplace_back(token);
  }
  if (!pattern.error.empty()) pattern.hosts.clear();
  return pattern;
}

std::string ParseOneHost(std::string_view token) {
  size_t budget = 1;
  HostPattern pattern = ParseHostPattern(token, budget);
  if (!pattern.error.empty() || !pattern.user.empty() || pattern.is_range) return {};
  return std::move(pattern.hosts.front());
}

std::string HostKey(std::string_view host) {
  const size_t zone = host.find('%');
  in6_addr address;
  if (host.find(':') == std::string_view::npos ||
      inet_pton(AF_INET6, std::string(host.substr(0, zone)).c_str(), &address) != 1) {
    return std::string(host);
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, &address, text.data(), text.size());
  std::string key(text.data());
  if (zone != std::string_view::npos) key += host.substr(zone);
  return key;
}

}  // namespace muster
