#include "agent/binding/place_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "common/base/annotate.h"

namespace muster {
namespace {

constexpr std::string_view kCheck = "bind";
constexpr std::string_view kThreads = "OMP_NUM_THREADS";
constexpr std::array<std::string_view, 2> kAffinity = {"KMP_AFFINITY", "GOMP_CPU_AFFINITY"};
// What Device.numa_node says when nobody knows.
constexpr int32_t kUnknownNode = -1;

CpuList Common(const CpuList& a, const CpuList& b) {
  CpuList both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

CpuList CpusOf(const std::vector<CoreFacts>& cores) {
  CpuList cpus;
  for (const CoreFacts& core : cores) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

std::vector<CoreFacts> Within(const std::vector<CoreFacts>& cores, const CpuList& cpus) {
  std::vector<CoreFacts> within;
  for (const CoreFacts& core : cores) {
    CpuList common = Common(core.cpus, cpus);
    if (!common.empty()) within.push_back({std::move(common), core.numa_node});
  }
  return within;
}

// The NUMA node that all of `cores` are of.
int32_t CommonNode(const std::vector<CoreFacts>& cores) {
  const int32_t node = cores.front().numa_node;
  const bool same = std::all_of(cores.begin(), cores.end(),
                                [&](const CoreFacts& core) { return core.numa_node == node; });
  return same ? node : kUnknownNode;
}

std::string CardName(const v1::Device& card) {
  if (card.pci_address().empty()) return fmt::format("card {}", card.module_id());
  return fmt::format("card {} ({})", card.module_id(), card.pci_address());
}

v1::RankPlacement Unbound(const v1::RankSpec& rank, std::string reason) {
  v1::RankPlacement placement;
  placement.set_rank(rank.rank());
  placement.set_memory_node(kUnknownNode);
  placement.set_reason(std::move(reason));
  return placement;
}

// Places the ranks of one launch.
class Placing {
 public:
  Placing(const v1::LaunchSpec& launch, const v1::DeviceInventory& devices,
          const TopologyFacts& topology, const BindVariables& variables)
      : launch_(launch),
        devices_(devices),
        topology_(topology),
        variables_(variables),
        cores_(topology.cores) {}

  Placements Place() {
    if (!TakeCoreList()) return std::move(out_);
    for (int i = 0; i < launch_.ranks_size(); ++i) {
      const v1::RankSpec& rank = launch_.ranks(i);
      if (!launch_.slots_are_cards()) {
        out_.ranks.push_back(ShareOfRanks(rank, static_cast<size_t>(i)));
        continue;
      }
      const v1::Device* card = CardOf(rank);
      if (card == nullptr) {
        std::string reason =
            fmt::format("card {} is not among the cards of this node", rank.slot());
        Warn(fmt::format("rank {} is not bound: {}", rank.rank(), reason));
        out_.ranks.push_back(Unbound(rank, std::move(reason)));
      } else {
        out_.ranks.push_back(launch_.bind() == "cores" ? ShareOfCards(rank, *card)
                                                       : NodeOfCard(rank, *card));
      }
    }
    const bool bound = std::any_of(out_.ranks.begin(), out_.ranks.end(),
                                   [](const auto& rank) { return !rank.cpus().empty(); });
    for (const std::string& name : variables_.affinity) {
      if (!bound) break;
      Warn(
          fmt::format("{} is set: it places threads within the processors that a rank is bound "
                      "to, or is ignored where it names others; unset it, or use bind: none",
                      name));
    }
    return std::move(out_);
  }

 private:
  // Leaves only what the job named. False: it named what is not there.
  bool TakeCoreList() {
    if (launch_.bind_core_list().empty()) return true;
    const absl::StatusOr<CpuList> wanted = ParseCpuList(launch_.bind_core_list());
    if (!wanted.ok()) return Refuse(fmt::format("bind_core_list: {}", MessageOf(wanted.status())));
    const CpuList allowed = CpusOf(cores_);
    CpuList missing;
    std::set_difference(wanted->begin(), wanted->end(), allowed.begin(), allowed.end(),
                        std::back_inserter(missing));
    if (!missing.empty()) {
      return Refuse(fmt::format(
          "bind_core_list {}: the agent may not use processors {}, or they are not there; it may "
          "use {}",
          launch_.bind_core_list(), CpuListText(missing), CpuListText(allowed)));
    }
    cores_ = Within(cores_, *wanted);
    if (cores_.empty()) return Refuse("bind_core_list names no processor");
    return true;
  }

  bool Refuse(const std::string& message) {
    v1::Problem problem;
    problem.set_check(std::string(kCheck));
    problem.set_message(message);
    out_.problems.push_back(std::move(problem));
    return false;
  }

  void Warn(std::string warning) {
    if (std::find(out_.warnings.begin(), out_.warnings.end(), warning) == out_.warnings.end()) {
      out_.warnings.push_back(std::move(warning));
    }
  }

  const v1::Device* CardOf(const v1::RankSpec& rank) const {
    for (const v1::Device& card : devices_.devices()) {
      if (card.module_id() == rank.slot()) return &card;
    }
    return nullptr;
  }

  std::vector<CoreFacts> CoresOfNode(int32_t node) const {
    std::vector<CoreFacts> cores;
    for (const CoreFacts& core : cores_) {
      if (core.numa_node == node) cores.push_back(core);
    }
    return cores;
  }

  // The cores near the card. The topology knows best; what the card's bus says does where that has
  // no such node.
  std::vector<CoreFacts> CoresNear(const v1::Device& card) const {
    if (HasNode(card.numa_node())) return CoresOfNode(card.numa_node());
    const absl::StatusOr<CpuList> local = ParseCpuList(card.local_cpus());
    return local.ok() ? Within(cores_, *local) : std::vector<CoreFacts>();
  }

  bool HasNode(int32_t node) const {
    return std::any_of(topology_.nodes.begin(), topology_.nodes.end(),
                       [&](const NumaNodeFacts& known) { return known.number == node; });
  }

  v1::RankPlacement Bound(const v1::RankSpec& rank, const std::vector<CoreFacts>& cores,
                          int32_t node, size_t sharers, std::string reason) const {
    v1::RankPlacement placement;
    placement.set_rank(rank.rank());
    placement.set_cpus(CpuListText(CpusOf(cores)));
    placement.set_memory_node(HasNode(node) ? node : kUnknownNode);
    if (!variables_.threads_set) {
      placement.set_omp_num_threads(
          static_cast<uint32_t>(std::max<size_t>(1, cores.size() / std::max<size_t>(1, sharers))));
    }
    placement.set_reason(std::move(reason));
    return placement;
  }

  v1::RankPlacement UnboundWithWarning(const v1::RankSpec& rank, const std::string& reason) {
    Warn(fmt::format("ranks are not bound: {}", reason));
    return Unbound(rank, reason);
  }

  v1::RankPlacement NodeOfCard(const v1::RankSpec& rank, const v1::Device& card) {
    const int32_t node = card.numa_node();
    if (node < 0) {
      return Unbound(rank, fmt::format("the machine does not say which NUMA node {} is at, as "
                                       "virtual machines do not",
                                       CardName(card)));
    }
    const std::vector<CoreFacts> cores = CoresNear(card);
    if (cores.empty()) return UnboundWithWarning(rank, NoCores(node));
    size_t sharers = 0;
    for (const v1::RankSpec& other : launch_.ranks()) {
      const v1::Device* of_other = CardOf(other);
      sharers += of_other != nullptr && of_other->numa_node() == node;
    }
    return Bound(rank, cores, node, sharers,
                 fmt::format("{} is at NUMA node {}", CardName(card), node));
  }

  std::string NoCores(int32_t node) const {
    return fmt::format("the agent may use no processor of NUMA node {}{}", node,
                       launch_.bind_core_list().empty() ? "" : " that bind_core_list names");
  }

  // The cards that share the cores of `card`, by module id. Empty: nobody knows.
  std::vector<uint32_t> CardsBeside(const v1::Device& card) const {
    std::vector<uint32_t> modules;
    bool any_known = false;
    for (const v1::Device& other : devices_.devices()) {
      any_known = any_known || other.numa_node() >= 0;
      if (std::max(other.numa_node(), kUnknownNode) == std::max(card.numa_node(), kUnknownNode)) {
        modules.push_back(other.module_id());
      }
    }
    if (card.numa_node() < 0 && any_known) return {};
    std::sort(modules.begin(), modules.end());
    return modules;
  }

  v1::RankPlacement ShareOfCards(const v1::RankSpec& rank, const v1::Device& card) {
    const int32_t node = card.numa_node();
    const std::vector<uint32_t> modules = CardsBeside(card);
    if (modules.empty()) {
      return UnboundWithWarning(
          rank, fmt::format("the NUMA node of {} is not known, though that of other cards is",
                            CardName(card)));
    }
    const std::vector<CoreFacts> cores = node >= 0 ? CoresNear(card) : cores_;
    if (cores.empty()) return UnboundWithWarning(rank, NoCores(node));
    const std::string at = node >= 0 ? fmt::format(" at NUMA node {}", node) : std::string();
    const size_t each = cores.size() / modules.size();
    if (each == 0) {
      return UnboundWithWarning(rank, fmt::format("there are {} cards and only {} cores{}",
                                                  modules.size(), cores.size(), at));
    }
    const auto position = static_cast<size_t>(
        std::find(modules.begin(), modules.end(), card.module_id()) - modules.begin());
    return Block(rank, cores, position, each,
                 fmt::format("{} has {} of the {} cores{}, which {} cards share", CardName(card),
                             each, cores.size(), at, modules.size()));
  }

  v1::RankPlacement ShareOfRanks(const v1::RankSpec& rank, size_t position) {
    const auto ranks = static_cast<size_t>(launch_.ranks_size());
    const size_t each = cores_.size() / ranks;
    if (each == 0) {
      return UnboundWithWarning(
          rank, fmt::format("there are {} ranks and only {} cores", ranks, cores_.size()));
    }
    return Block(rank, cores_, position, each,
                 fmt::format("{} of {} cores, which {} ranks share", each, cores_.size(), ranks));
  }

  v1::RankPlacement Block(const v1::RankSpec& rank, const std::vector<CoreFacts>& cores,
                          size_t position, size_t each, std::string reason) const {
    const auto first = cores.begin() + static_cast<ptrdiff_t>(position * each);
    const std::vector<CoreFacts> own(first, first + static_cast<ptrdiff_t>(each));
    return Bound(rank, own, CommonNode(own), 1, std::move(reason));
  }

  const v1::LaunchSpec& launch_;
  const v1::DeviceInventory& devices_;
  const TopologyFacts& topology_;
  const BindVariables& variables_;
  // Those to be divided.
  std::vector<CoreFacts> cores_;
  Placements out_;
};

}  // namespace

BindVariables ReadBindVariables(const internal::ShimBootstrap& bootstrap) {
  BindVariables variables;
  if (bootstrap.ranks_size() == 0) return variables;
  // Ranks of a launch differ only in what the launcher owns, and none of these is.
  for (const std::string& pair : bootstrap.ranks(0).env()) {
    const std::string_view name = std::string_view(pair).substr(0, pair.find('='));
    if (name == kThreads) variables.threads_set = true;
    if (std::find(kAffinity.begin(), kAffinity.end(), name) != kAffinity.end()) {
      variables.affinity.emplace_back(name);
    }
  }
  return variables;
}

bool NeedsTopology(const v1::LaunchSpec& launch) {
  // The engine, not its client, starts what would be bound.
  if (launch.ranks_size() == 0 || launch.has_container()) return false;
  return launch.bind() == "cores" || (launch.bind() == "numa" && launch.slots_are_cards());
}

Placements PlaceWithoutTopology(const v1::LaunchSpec& launch) {
  if (launch.has_container()) {
    if (launch.bind().empty() || launch.bind() == "none") return {};
    Placements out =
        PlaceNowhere(launch,
                     "it runs in a container, where ranks are not bound (--cpuset-cpus in "
                     "container.options binds)");
    if (launch.bind() == "cores" || !launch.bind_core_list().empty()) {
      out.warnings.push_back(
          "ranks are not bound: they run in containers (use --cpuset-cpus in container.options)");
    }
    return out;
  }
  if (launch.bind() != "numa") return {};
  Placements out = PlaceNowhere(
      launch, "its slot is no card, so there is no NUMA node to be near (bind: cores binds)");
  if (!launch.bind_core_list().empty()) {
    out.warnings.push_back("bind_core_list has no effect: slots are no cards (use bind: cores)");
  }
  return out;
}

Placements PlaceRanks(const v1::LaunchSpec& launch, const v1::DeviceInventory& devices,
                      const TopologyFacts& topology, const BindVariables& variables) {
  return Placing(launch, devices, topology, variables).Place();
}

Placements PlaceNowhere(const v1::LaunchSpec& launch, const std::string& reason) {
  Placements out;
  for (const v1::RankSpec& rank : launch.ranks()) out.ranks.push_back(Unbound(rank, reason));
  return out;
}

}  // namespace muster
