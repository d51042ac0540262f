// Whether leased cards are ready for ranks: what the driver says of them, and which processes have
// them open. Looks only. Single-threaded; one look is bounded by time.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "agent/shim/exec_image.h"
#include "muster/internal/shim.pb.h"

namespace muster::shim {

struct CardLook {
  // What is in the way; empty: all are ready.
  std::vector<Problem> problems;
  // True when all of it may pass by itself: a reset, a process that ends.
  bool may_pass = true;
  // Not empty: not every process was looked at, so that no holder found does not mean that there is
  // none.
  std::string incomplete;
};

// What the driver says of a card that is not ready, in words; empty: it is ready, or does not say.
std::string CardProblem(const internal::ShimCard& card);

struct CardLookLimits {
  std::string proc = "/proc";
  // A look must not keep the loop from its work for long.
  std::chrono::milliseconds time{200};
};

CardLook LookAtCards(const google::protobuf::RepeatedPtrField<internal::ShimCard>& cards,
                     const CardLookLimits& limits = {});

}  // namespace muster::shim
