// Slots of the attempt: leases, and for cards that nobody holds them and that they work. Cards come
// free by themselves when a job or a process before has ended, or a reset is over; that is waited
// for, while the shim goes on to hear the agent.

#include <algorithm>
#include <utility>

#include "agent/shim/supervisor.h"

namespace muster::shim {
namespace {

constexpr milliseconds kLookEvery{200};

}  // namespace

void Supervisor::TakeSlots(SteadyTime now) {
  next_card_look_.reset();
  if (phase_ != Phase::kChecking || slots_done_) return;
  std::vector<Problem> problems;
  bool may_pass = true;
  const bool may_wait = bootstrap_.slots_are_cards() && now < *cards_end_;
  for (const uint32_t slot : bootstrap_.slots()) {
    // Without a directory for them that is told already.
    if (!leases_) break;
    bool held = false;
    std::string problem = leases_->TakeSlot(slot, &held);
    if (problem.empty()) continue;
    may_pass = may_pass && held;
    problems.push_back({"slot-lease", std::move(problem)});
    // All are named when it is over.
    if (may_wait && may_pass) break;
  }
  // Two that want the same cards must not wait for each other, each with some of them.
  if (!problems.empty() && may_wait && may_pass) {
    for (const uint32_t slot : bootstrap_.slots()) leases_->ReleaseSlot(slot);
  }
  // Who holds a lease tells more than the processes that go with it. With the lease nobody else of
  // Muster can take the card between this look and the start.
  if (problems.empty() && leases_ && bootstrap_.slots_are_cards()) {
    CardLook look = LookAtCards(bootstrap_.cards());
    problems = std::move(look.problems);
    may_pass = look.may_pass;
    if (!look.incomplete.empty() && !problems.empty() && !(may_pass && may_wait)) {
      problems.push_back({"card-busy", std::move(look.incomplete)});
    } else if (!look.incomplete.empty() && problems.empty()) {
      bootstrap_.add_warnings("card-busy: " + look.incomplete);
    }
  }
  if (!problems.empty() && may_pass && may_wait) {
    next_card_look_ = std::min(now + kLookEvery, *cards_end_);
    return;
  }
  for (Problem& problem : problems) problems_.push_back(std::move(problem));
  slots_done_ = true;
  EndPrepare();
}

std::string Supervisor::ProblemOfCard(uint32_t slot) const {
  for (const internal::ShimCard& card : bootstrap_.cards()) {
    if (card.module_id() == slot) return CardProblem(card);
  }
  return "";
}

}  // namespace muster::shim
