#include "agent/shim/card_watch.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "agent/shim/text.h"
#include "common/io/atomic_file.h"
#include "common/io/file_holders.h"
#include "common/io/unique_fd.h"

namespace muster::shim {
namespace {

constexpr size_t kStatusBytes = 4096;
constexpr size_t kMostHolders = 64;

std::string Card(const internal::ShimCard& card) {
  std::string text = "module " + std::to_string(card.module_id());
  if (!card.pci_address().empty()) text += " (" + card.pci_address() + ")";
  return text;
}

// Empty text: ready.
Problem LookAtStatus(const internal::ShimCard& card, bool* passes) {
  *passes = false;
  if (card.status_path().empty()) return {};
  std::string status;
  // On a simulated node it may have become a pipe, which must not hold the shim up.
  const UniqueFd fd(::open(card.status_path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const std::error_code error = fd ? ReadFile(fd.get(), status, kStatusBytes)
                                   : std::error_code(errno, std::generic_category());
  while (!status.empty() && (status.back() == '\n' || status.back() == ' ')) status.pop_back();
  if (!error && status == "Operational") return {};
  // Both words are the driver's.
  *passes = !error &&
            (std::string_view(status).starts_with("In reset") || status == "In device creation");
  return {"card-status",
          Card(card) + (error ? ": its status cannot be read: " + ErrnoText(error.value())
                              : " is not ready, its status is \"" + Printable(status, 100) + "\"")};
}

}  // namespace

std::string CardProblem(const internal::ShimCard& card) {
  bool passes = false;
  return LookAtStatus(card, &passes).message;
}

CardLook LookAtCards(const google::protobuf::RepeatedPtrField<internal::ShimCard>& cards,
                     const CardLookLimits& limits) {
  CardLook look;
  std::vector<std::string> nodes;
  std::vector<const internal::ShimCard*> of_node;
  for (const internal::ShimCard& card : cards) {
    bool passes = false;
    if (Problem problem = LookAtStatus(card, &passes); !problem.message.empty()) {
      look.may_pass = look.may_pass && passes;
      look.problems.push_back(std::move(problem));
    }
    if (card.device_node().empty()) continue;
    nodes.push_back(card.device_node());
    of_node.push_back(&card);
  }
  const HolderScan scan =
      FindFileHolders(nodes, limits.proc, {.time = limits.time, .holders = kMostHolders});
  for (const FileHolder& holder : scan.holders) {
    std::string text = Card(*of_node[holder.file]) + " is held by pid " +
                       std::to_string(holder.pid) + " of " + LocalUserName(holder.uid) + " (" +
                       Printable(holder.command, 100) + ")";
    if (!holder.job_id.empty()) text += ", job " + Printable(holder.job_id, 63);
    look.problems.push_back({"card-busy", std::move(text)});
  }
  if (!scan.complete) {
    look.incomplete = scan.holders.size() >= kMostHolders
                          ? "there may be more processes that hold the cards: only the first " +
                                std::to_string(kMostHolders) + " are told"
                          : "whether other processes hold the cards is not fully known: not all "
                            "processes of this node could be looked at within " +
                                std::to_string(limits.time.count()) +
                                " ms (as root, fuser -v /dev/accel/* tells)";
  }
  return look;
}

}  // namespace muster::shim
