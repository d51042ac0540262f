#include "coordinator/core/node_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coordinator/core/job_text.h"

namespace muster {
namespace {

// Earlier boots and processes that are remembered.
constexpr int kMostEarlier = 16;

std::string DescribeOther(const v1::Hello& hello) {
  return fmt::format(
      "host {}, address {}, boot {}", OneLine(hello.facts().hostname()),
      hello.facts().addresses().empty() ? "unknown" : OneLine(hello.facts().addresses(0)),
      hello.boot_id());
}

}  // namespace

Claim NodeIdentity::Judge(const internal::NodeRecord& record, const v1::Hello& hello,
                          const Contact& contact, TimePoint now) {
  const bool same_boot = record.boot_id().empty() || hello.boot_id() == record.boot_id();
  if (same_boot && (instance_id_.empty() || hello.agent_instance_id() == instance_id_)) {
    return Claim::kGood;
  }
  const bool barred =
      std::ranges::any_of(record.earlier_boots(),
                          [&](const auto& boot) { return boot.boot_id() == hello.boot_id(); }) ||
      (same_boot && std::ranges::find(earlier_instances_, hello.agent_instance_id()) !=
                        earlier_instances_.end());
  if (barred) {
    other_ = DescribeOther(hello);
    return Claim::kForeign;
  }
  if (now - contact.last_heard >= contact.lease || (same_boot && !contact.connected)) {
    return Claim::kGood;
  }
  const bool new_rival =
      !rival_.has_value() || rival_->hello.agent_instance_id() != hello.agent_instance_id();
  if (new_rival) rival_ = Rival{.hello = hello, .since = now};
  rival_->last = now;
  other_ = DescribeOther(hello);
  return Claim::kTooEarly;
}

void NodeIdentity::Take(internal::NodeRecord& record, const v1::Hello& hello) {
  if (!record.boot_id().empty() && record.boot_id() != hello.boot_id()) {
    internal::EarlierBoot before;
    before.set_boot_id(record.boot_id());
    before.set_journal_id(record.journal_id());
    before.set_acked_event_seq(record.acked_event_seq());
    Bar(record, std::move(before));
    earlier_instances_.clear();
  } else if (!instance_id_.empty() && instance_id_ != hello.agent_instance_id()) {
    earlier_instances_.push_back(instance_id_);
    if (earlier_instances_.size() > kMostEarlier) earlier_instances_.pop_front();
  }
  instance_id_ = hello.agent_instance_id();
  record.set_boot_id(hello.boot_id());
  record.set_journal_id(hello.journal_id());
  rival_.reset();
}

bool NodeIdentity::ShowsACopy(internal::NodeRecord& record, const Contact& contact, TimePoint now) {
  if (!rival_.has_value() || now - rival_->since < contact.lease) return false;
  // Who came once may have been the successor of a process whose last words came late.
  if (rival_->last - rival_->since < contact.lease / 2) return false;
  if (rival_->hello.boot_id() != record.boot_id()) {
    internal::EarlierBoot boot;
    boot.set_boot_id(rival_->hello.boot_id());
    Bar(record, std::move(boot));
  } else {
    earlier_instances_.push_back(rival_->hello.agent_instance_id());
  }
  rival_.reset();
  return true;
}

void NodeIdentity::Bar(internal::NodeRecord& record, internal::EarlierBoot boot) {
  *record.add_earlier_boots() = std::move(boot);
  while (record.earlier_boots_size() > kMostEarlier) {
    record.mutable_earlier_boots()->erase(record.earlier_boots().begin());
  }
}

}  // namespace muster
