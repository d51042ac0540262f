// A bidirectional stream between an agent and the coordinator over a link that may be slow, cut in
// one or both directions, or break. As with gRPC: messages of one direction arrive in order and
// once; when a stream breaks, those sent just before may or may not have arrived; an end whose peer
// is silent notices after a keepalive time only.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "tests/sim/cluster/random.h"
#include "tests/testing/sim_executor.h"

namespace muster::testing {

// What lies between one node and the coordinator. Shared by all streams of the node.
struct Link {
  bool up_cut = false;
  bool down_cut = false;
  Duration min_delay = std::chrono::microseconds(50);
  Duration max_delay = std::chrono::milliseconds(20);
};

// What one end of a stream does with what comes.
template <typename Message>
struct StreamEnd {
  std::function<void(const Message&)> on_message;
  // The stream is over. Called once, unless this end closed it.
  std::function<void()> on_closed;
};

template <typename Up, typename Down>
class SimStream : public std::enable_shared_from_this<SimStream<Up, Down>> {
 public:
  SimStream(SimQueue& queue, Random& random, const Link& link)
      : queue_(queue), random_(random), link_(link) {}

  // Both ends are called by tasks of the queue only, never from inside a call.
  void SetAgentEnd(StreamEnd<Down> end) { down_.end = std::move(end); }
  void SetCoordinatorEnd(StreamEnd<Up> end) { up_.end = std::move(end); }

  void SendUp(Up message) { Push(up_, std::move(message)); }
  void SendDown(Down message) { Push(down_, std::move(message)); }

  // An end closes: the other gets what was sent before and then the end.
  void CloseFromAgent() { Close(up_, down_); }
  void CloseFromCoordinator() { Close(down_, up_); }
  // The process at an end died: the other gets some of what was sent before, and then the end.
  void AgentDied() {
    Lose(up_);
    CloseFromAgent();
  }
  void CoordinatorDied() {
    Lose(down_);
    CloseFromCoordinator();
  }
  // The connection breaks: each end gets some of what was under way, and then the end.
  void Break() {
    Lose(up_);
    Lose(down_);
    Push(up_, std::nullopt);
    Push(down_, std::nullopt);
  }
  bool over() const { return !up_.open && !down_.open; }
  // A cut of the link was healed: what was held back goes on.
  void OnHealed() {
    Wake(up_);
    Wake(down_);
  }

 private:
  // What is under way to one end; nothing for the end of the stream.
  template <typename Message>
  struct Direction {
    std::deque<std::optional<Message>> under_way;
    TimePoint last_arrival;
    StreamEnd<Message> end;
    // The receiving end still listens.
    bool open = true;
    bool ending = false;
    bool keepalive_armed = false;
  };

  template <typename Message>
  bool IsCut(const Direction<Message>& direction) const {
    return static_cast<const void*>(&direction) == static_cast<const void*>(&up_) ? link_.up_cut
                                                                                  : link_.down_cut;
  }

  template <typename Message>
  void Push(Direction<Message>& direction, std::type_identity_t<std::optional<Message>> message) {
    if (direction.ending) return;
    direction.ending = !message.has_value();
    direction.under_way.push_back(std::move(message));
    const TimePoint arrival =
        std::max(direction.last_arrival,
                 queue_.clock().Now() + random_.Between(link_.min_delay, link_.max_delay));
    direction.last_arrival = arrival;
    Schedule(direction, arrival - queue_.clock().Now());
  }

  template <typename Message>
  void Schedule(Direction<Message>& direction, Duration delay) {
    queue_.Add(delay, [self = this->shared_from_this(), &direction] { self->Arrive(direction); });
  }

  // The next message arrives, if the link lets it. One such task exists per message.
  template <typename Message>
  void Arrive(Direction<Message>& direction) {
    if (direction.under_way.empty() || !direction.open) return;
    if (IsCut(direction)) {
      ArmKeepalive(direction);
      return;
    }
    const std::optional<Message> message = std::move(direction.under_way.front());
    direction.under_way.pop_front();
    if (message) {
      direction.end.on_message(*message);
    } else {
      direction.open = false;
      direction.end.on_closed();
    }
  }

  // Nothing gets through: some time later the connection is given up by both ends, each for itself.
  template <typename Message>
  void ArmKeepalive(Direction<Message>& direction) {
    if (std::exchange(direction.keepalive_armed, true)) return;
    const Duration patience =
        random_.Between(std::chrono::milliseconds(2000), std::chrono::milliseconds(12000));
    queue_.Add(patience, [self = this->shared_from_this(), &direction] {
      direction.keepalive_armed = false;
      if (!self->IsCut(direction) || direction.under_way.empty() || !direction.open) return;
      self->GiveUp(self->up_);
      self->GiveUp(self->down_);
    });
  }

  template <typename Message>
  void GiveUp(Direction<Message>& direction) {
    direction.under_way.clear();
    direction.ending = true;
    const Duration later = random_.Between(Duration(0), std::chrono::milliseconds(3000));
    queue_.Add(later, [self = this->shared_from_this(), &direction] {
      if (!std::exchange(direction.open, false)) return;
      direction.end.on_closed();
    });
  }

  template <typename Message>
  void Wake(Direction<Message>& direction) {
    for (size_t i = 0; i < direction.under_way.size(); ++i) {
      Schedule(direction, random_.Between(Duration(0), link_.max_delay));
    }
  }

  // A random number of the newest messages never arrives.
  template <typename Message>
  void Lose(Direction<Message>& direction) {
    if (direction.under_way.empty() || direction.ending) return;
    const size_t kept = random_.Between(uint64_t{0}, direction.under_way.size());
    direction.under_way.resize(kept);
  }

  // `outgoing` ends after what was sent; nothing of `incoming` is heard any more.
  template <typename Out, typename In>
  void Close(Direction<Out>& outgoing, Direction<In>& incoming) {
    Push(outgoing, std::nullopt);
    incoming.open = false;
    incoming.ending = true;
    incoming.under_way.clear();
  }

  SimQueue& queue_;
  Random& random_;
  const Link& link_;
  Direction<Up> up_;
  Direction<Down> down_;
};

}  // namespace muster::testing
