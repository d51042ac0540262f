// Whether a greeting comes from the machine and process that a node is known by. The state of an
// agent can be copied, with its key and its name; what cannot be copied is that only one boot of
// one machine, and one process on it, is a node at a time. The rules:
//
//   * Another process follows at once when the connection of the one before is gone.
//   * Another boot follows when nothing was heard for a lease: by then the one before is lost.
//   * Who comes earlier has to wait. When the known one is still heard a lease after that, and the
//     other one was back meanwhile, there are two: the later one is a copy, and not served any
//     more.
//   * What was followed never comes back: a greeting of it is one of a copy, too.
//
// Pure but for its own state; one per node, owned by its NodeEntry.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "muster/internal/record.pb.h"
#include "muster/v1/agent.pb.h"

namespace muster {

// What a greeting is to a node.
enum class Claim {
  // Of whom is known, or of who follows it.
  kGood,
  // Of another one, while the known one was heard a moment ago.
  kTooEarly,
  // Of one that is not served any more.
  kForeign,
};

class NodeIdentity {
 public:
  // How the node that is known stands.
  struct Contact {
    bool connected = false;
    TimePoint last_heard{};
    Duration lease{};
  };

  // Judges a greeting and remembers who came too early.
  Claim Judge(const internal::NodeRecord& record, const v1::Hello& hello, const Contact& contact,
              TimePoint now);
  // A greeting is taken: changes `record` to the new boot and journal.
  void Take(internal::NodeRecord& record, const v1::Hello& hello);
  // The known one was heard. True when that shows that there is another one beside it, which is
  // told once; `record` then bars it.
  bool ShowsACopy(internal::NodeRecord& record, const Contact& contact, TimePoint now);

  // Another boot waits for the silence of this one.
  bool AnotherBootWaits(const internal::NodeRecord& record) const {
    return rival_.has_value() && rival_->hello.boot_id() != record.boot_id();
  }
  // Who came last and was not taken, for people: host name, addresses, boot.
  const std::string& other() const { return other_; }

 private:
  struct Rival {
    v1::Hello hello;
    TimePoint since{};
    // Of its newest greeting.
    TimePoint last{};
  };

  static void Bar(internal::NodeRecord& record, internal::EarlierBoot boot);

  // Of the process that is known; empty: any process of the boot.
  std::string instance_id_;
  std::deque<std::string> earlier_instances_;
  std::optional<Rival> rival_;
  std::string other_;
};

}  // namespace muster
