// Whether the socket interfaces that variables name are there, each by the rules of its library.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "agent/checks/quick_checks.h"

namespace muster {
namespace {

std::vector<std::string> SplitList(std::string_view list) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = std::min(list.find(','), list.size());
    if (end > 0) parts.emplace_back(list.substr(0, end));
    if (end == list.size()) return parts;
    list.remove_prefix(end + 1);
  }
}

// "eth0 (10.0.0.5), ib0 (down)".
std::string Present(const CheckContext& context) {
  std::vector<std::string> shown;
  for (const NetworkInterface& one : context.interfaces) {
    if (shown.size() == 12) {
      shown.push_back("...");
      break;
    }
    std::string_view state = !one.up            ? "down"
                             : one.is_gaudi()   ? "a port of a Gaudi card"
                             : one.ipv4.empty() ? "no IPv4 address"
                                                : "";
    shown.push_back(state.empty() ? one.name : fmt::format("{} ({})", one.name, state));
  }
  return shown.empty() ? "there are none"
                       : fmt::format("the interfaces here are {}", fmt::join(shown, ", "));
}

// Why an interface cannot be used; empty when it can.
std::string_view WhyNot(const NetworkInterface& one, bool ipv4_only) {
  if (!one.up) return "is down";
  if (one.is_gaudi()) return "is a port of a Gaudi card, which is not used for sockets";
  if (one.ipv4.empty() && (ipv4_only || !one.has_ipv6)) {
    return ipv4_only ? "has no IPv4 address" : "has no address";
  }
  return "";
}

struct NameRules {
  // `^a,b` leaves out instead.
  bool exclusion = false;
  // `=a` is a whole name; otherwise names are beginnings of names.
  bool equals_is_whole = false;
  bool always_whole = false;
  bool ipv4_only = false;
};

constexpr NameRules kHcclRules{.exclusion = true, .ipv4_only = true};

struct Choice {
  std::vector<const NetworkInterface*> matches;
  std::vector<std::string> unmatched;
};

Choice Choose(const CheckContext& context, std::string_view value, const NameRules& rules) {
  const bool exclude = rules.exclusion && value.starts_with('^');
  if (exclude) value.remove_prefix(1);
  const bool whole = rules.always_whole || (rules.equals_is_whole && value.starts_with('='));
  if (rules.equals_is_whole && value.starts_with('=')) value.remove_prefix(1);
  const std::vector<std::string> names = SplitList(value);
  std::vector<bool> matched(names.size(), false);
  Choice choice;
  for (const NetworkInterface& one : context.interfaces) {
    bool hit = false;
    for (size_t i = 0; i < names.size(); ++i) {
      if (whole ? one.name != names[i] : !one.name.starts_with(names[i])) continue;
      hit = matched[i] = true;
    }
    if (hit != exclude) choice.matches.push_back(&one);
  }
  for (size_t i = 0; !exclude && i < names.size(); ++i) {
    if (!matched[i]) choice.unmatched.push_back(names[i]);
  }
  return choice;
}

// The best of those that were chosen, null: none can be used, with the first reason.
const NetworkInterface* Usable(const Choice& choice, const NameRules& rules, std::string* reason) {
  const NetworkInterface* usable = nullptr;
  for (const NetworkInterface* one : choice.matches) {
    const std::string_view why = WhyNot(*one, rules.ipv4_only);
    if (why.empty()) {
      if (usable == nullptr || (usable->loopback && !one->loopback)) usable = one;
    } else if (reason->empty()) {
      *reason = fmt::format("{} {}", one->name, why);
    }
  }
  return usable;
}

// A job without cards may have no use for what its submitter's shell, or the agent, happened to
// have.
v1::CheckResult Soften(const CheckContext& context, std::string_view variable,
                       v1::CheckResult result) {
  const bool is_meant = context.cards > 0 || context.set_by_job.contains(variable);
  if (result.verdict() == v1::FAIL && !is_meant) result.set_verdict(v1::WARN);
  return result;
}

// FAIL unless one interface of those that `value` chooses can be used.
v1::CheckResult CheckChoice(const CheckContext& context, std::string_view check,
                            std::string_view variable, const NameRules& rules) {
  const std::string_view value = context.Env(variable);
  const std::string fix = fmt::format(
      "set {} to the interface of this node that reaches the other nodes (node_env for single "
      "nodes)",
      variable);
  const Choice choice = Choose(context, value, rules);
  std::string reason;
  const NetworkInterface* const usable = Usable(choice, rules, &reason);
  if (usable == nullptr) {
    return MakeResult(check, v1::FAIL,
                      fmt::format("{}={}: {}; {}", variable, value,
                                  reason.empty() ? "no interface fits" : reason, Present(context)),
                      fix);
  }
  if (usable->loopback && context.multi_node()) {
    return MakeResult(
        check, v1::WARN,
        fmt::format("{}={}: {} reaches no other machine", variable, value, usable->name), fix);
  }
  return MakeResult(check, v1::PASS, fmt::format("{}={}: {}", variable, value, usable->name), "");
}

}  // namespace

// Comma list of beginnings of names, IPv4 only, never a port of a card. Unset: the first that does
// not begin with lo, docker or tunl.
const NetworkInterface* HcclInterface(const CheckContext& context) {
  if (const std::string_view value = context.Env("HCCL_SOCKET_IFNAME"); !value.empty()) {
    std::string reason;
    return Usable(Choose(context, value, kHcclRules), kHcclRules, &reason);
  }
  for (const NetworkInterface& one : context.interfaces) {
    const bool left_out = one.name.starts_with("lo") || one.name.starts_with("docker") ||
                          one.name.starts_with("tunl");
    if (!left_out && WhyNot(one, true).empty()) return &one;
  }
  return nullptr;
}

v1::CheckResult CheckHcclInterface(const CheckContext& context) {
  if (!context.Env("HCCL_SOCKET_IFNAME").empty()) {
    return Soften(context, "HCCL_SOCKET_IFNAME",
                  CheckChoice(context, "hccl-interface", "HCCL_SOCKET_IFNAME", kHcclRules));
  }
  if (const NetworkInterface* const one = HcclInterface(context)) {
    return MakeResult("hccl-interface", v1::PASS,
                      fmt::format("HCCL_SOCKET_IFNAME is not set: {}", one->name), "");
  }
  return MakeResult("hccl-interface", v1::FAIL,
                    "HCCL_SOCKET_IFNAME is not set, and no interface besides lo, docker and tunl "
                    "ones is up with an IPv4 address; " +
                        Present(context),
                    "bring up the interface that reaches the other nodes");
}

// Whole names, every one of which is used.
v1::CheckResult CheckGlooInterface(const CheckContext& context) {
  constexpr NameRules kRules{.always_whole = true};
  const std::string_view value = context.Env("GLOO_SOCKET_IFNAME");
  const Choice choice = Choose(context, value, kRules);
  if (!choice.unmatched.empty()) {
    return MakeResult(
        "gloo-interface", v1::FAIL,
        fmt::format("GLOO_SOCKET_IFNAME={}: {} is not there; {}", value,
                    fmt::join(choice.unmatched, ", "), Present(context)),
        "set GLOO_SOCKET_IFNAME to the interface of this node that reaches the other nodes");
  }
  return CheckChoice(context, "gloo-interface", "GLOO_SOCKET_IFNAME", kRules);
}

v1::CheckResult CheckNcclInterface(const CheckContext& context) {
  return Soften(context, "NCCL_SOCKET_IFNAME",
                CheckChoice(context, "nccl-interface", "NCCL_SOCKET_IFNAME",
                            {.exclusion = true, .equals_is_whole = true}));
}

// Libraries tell machines apart by host name: two called localhost are one to them.
v1::CheckResult CheckHostname(const CheckContext& context) {
  constexpr const char* kFile = "/proc/sys/kernel/hostname";
  if (!context.Exists(kFile)) return MakeResult("hostname", v1::SKIPPED, "not known", "");
  const std::string name = context.ReadLine(kFile);
  if (name.empty() || name == "localhost" || name.starts_with("localhost.") || name == "(none)") {
    const v1::Verdict verdict = context.cards > 0 && context.multi_node() ? v1::FAIL : v1::WARN;
    return MakeResult(
        "hostname", verdict,
        fmt::format("the host name is \"{}\": HCCL takes machines of the same name for "
                    "one",
                    name),
        "give the machine, or the container, a name of its own");
  }
  return MakeResult("hostname", v1::PASS, "", "");
}

}  // namespace muster
