#include "coordinator/plan/host_match.h"

#include <absl/container/flat_hash_map.h>
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace muster {
namespace {

using Hosts = google::protobuf::RepeatedPtrField<v1::HostEntry>;

// What a node may be called by, in the order in which they are tried.
enum Kind { kNodeId, kHostName, kFqdn, kAddress, kKinds };
constexpr std::array<std::string_view, kKinds> kKindNames = {"node id", "host name", "full name",
                                                             "address"};
constexpr std::string_view kLoopback = "127.0.0.1";
// Names listed in one message; a hostfile of a thousand lines must not give a line of a thousand
// names.
constexpr size_t kNamesShown = 8;

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// One spelling per address; every loopback address is the same. Text that is no address gives
// nothing.
std::optional<std::string> Canonical(std::string_view text) {
  if (text.size() > 2 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
  }
  const std::string name(text);
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  std::array<char, INET6_ADDRSTRLEN> out{};
  if (inet_pton(AF_INET, name.c_str(), bytes.data()) == 1) {
    return bytes[0] == 127 ? std::string(kLoopback) : name;
  }
  if (inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1) {
    inet_ntop(AF_INET6, bytes.data(), out.data(), out.size());
    const std::string_view canonical(out.data());
    return std::string(canonical == "::1" ? kLoopback : canonical);
  }
  return std::nullopt;
}

// Finds nodes by what they are called.
class NodeIndex {
 public:
  explicit NodeIndex(std::span<const NodeView> nodes) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      const v1::NodeFacts& facts = nodes[i].facts;
      AddName(kNodeId, nodes[i].id.value(), i);
      AddName(kHostName, facts.hostname(), i);
      AddName(kFqdn, facts.fqdn(), i);
      for (const std::string& address : facts.addresses()) {
        Add(exact_[kAddress], Canonical(address).value_or(address), i);
      }
    }
  }

  // Nodes that answer to `host`, and to which kind of name. Empty when none does.
  std::pair<std::vector<size_t>, Kind> Find(const std::string& host) const {
    for (int kind = 0; kind < kAddress; ++kind) {
      if (auto it = exact_[kind].find(host); it != exact_[kind].end()) {
        return {it->second, static_cast<Kind>(kind)};
      }
    }
    const std::string lower = Lower(host);
    const std::string address =
        lower == "localhost" ? std::string(kLoopback) : Canonical(host).value_or(host);
    if (auto it = exact_[kAddress].find(address); it != exact_[kAddress].end()) {
      return {it->second, kAddress};
    }
    for (int kind = 0; kind < kAddress; ++kind) {
      if (auto it = lower_[kind].find(lower); it != lower_[kind].end()) {
        return {it->second, static_cast<Kind>(kind)};
      }
    }
    return {{}, kNodeId};
  }

 private:
  using Names = absl::flat_hash_map<std::string, std::vector<size_t>>;

  static void Add(Names& names, const std::string& name, size_t node) {
    if (name.empty()) return;
    std::vector<size_t>& holders = names[name];
    if (holders.empty() || holders.back() != node) holders.push_back(node);
  }

  void AddName(Kind kind, const std::string& name, size_t node) {
    Add(exact_[kind], name, node);
    Add(lower_[kind], Lower(name), node);
  }

  std::array<Names, kKinds> exact_;
  std::array<Names, kAddress> lower_;
};

std::string Listed(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < kNamesShown; ++i) {
    fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kNamesShown) {
    fmt::format_to(std::back_inserter(out), " and {} more", names.size() - kNamesShown);
  }
  return out;
}

std::string Named(const v1::HostEntry& host) {
  return host.source().empty() ? host.host() : fmt::format("{} ({})", host.host(), host.source());
}

}  // namespace

HostMatches MatchHosts(const Hosts& hosts, std::span<const NodeView> nodes) {
  HostMatches result;
  result.node.resize(hosts.size());
  const NodeIndex index(nodes);
  std::vector<std::vector<size_t>> entries_of_node(nodes.size());
  for (int i = 0; i < hosts.size(); ++i) {
    const auto [found, kind] = index.Find(hosts[i].host());
    if (found.empty()) {
      result.missing.push_back(i);
    } else if (found.size() == 1) {
      result.node[i] = found[0];
      entries_of_node[found[0]].push_back(i);
    } else {
      std::vector<std::string> names;
      for (size_t node : found) names.push_back(nodes[node].id.value());
      result.errors.push_back(fmt::format("{} is the {} of {} nodes: {}; write the node id instead",
                                          Named(hosts[i]), kKindNames[kind], found.size(),
                                          Listed(names)));
    }
  }
  for (size_t node = 0; node < nodes.size(); ++node) {
    if (entries_of_node[node].size() < 2) continue;
    std::vector<std::string> names;
    for (size_t entry : entries_of_node[node]) {
      names.push_back(Named(hosts[static_cast<int>(entry)]));
      result.node[entry].reset();
    }
    result.errors.push_back(fmt::format("{} are one machine, node {}; list it once", Listed(names),
                                        nodes[node].id.value()));
  }
  return result;
}

}  // namespace muster
