// How an attempt begins: its directory, its shim, its place in the hierarchy of control groups, its
// bootstrap.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/supervise/cgroup.h"
#include "agent/supervise/shim_launcher.h"
#include "common/base/annotate.h"

namespace muster {

void ShimLauncher::FillBootstrap(const AttemptDirectory& directory,
                                 internal::ShimBootstrap* bootstrap) const {
  // Empty: the shim knows the default and its fallback.
  bootstrap->set_lease_directory(options_.lease_directory);
  bootstrap->set_attempt_directory(directory.path());
  bootstrap->set_power_loss_ends_all(options_.power_loss_ends_all);
  if (options_.rank_oom_score_adj.has_value()) {
    bootstrap->set_has_rank_oom_score_adj(true);
    bootstrap->set_rank_oom_score_adj(*options_.rank_oom_score_adj);
  }
  bootstrap->clear_cgroup_directory();
  if (!bootstrap->slots_are_cards()) return;
  bootstrap->set_card_leases_per_node(options_.cards_are_simulated);
  for (const internal::ShimCard& card : cards_) {
    if (std::ranges::find(bootstrap->slots(), card.module_id()) != bootstrap->slots().end()) {
      *bootstrap->add_cards() = card;
    }
  }
}

absl::Status ShimLauncher::AddCgroup(const AttemptId& id, const AttemptDirectory& directory,
                                     const std::string& cgroup_parent,
                                     internal::ShimBootstrap* bootstrap) {
  absl::StatusOr<HeldCgroup> cgroup = MakeCgroup(cgroup_parent, CgroupName(id, options_.node_id));
  if (!cgroup.ok()) {
    // The marks in the environment do as well, only slower.
    spdlog::warn("attempt without cgroup job={} attempt={} error=\"{}\"", id.job.value(),
                 id.attempt, MessageOf(cgroup.status()));
    return absl::OkStatus();
  }
  cgroup_locks_[id] = std::move(cgroup->lock);
  bootstrap->set_cgroup_directory(cgroup->directory);
  // Before the start: an agent after this one must find the group.
  return directory.WriteText(kCgroupFile, cgroup->directory);
}

// The shim waits for its bootstrap meanwhile, so that none of its ranks is ever outside.
void ShimLauncher::MakeScope(const Follower& shim, internal::ShimBootstrap bootstrap) {
  const AttemptId& id = shim->id();
  const ScopeRequest request = {ScopeUnitName(id), ScopeDescription(bootstrap.holder(), id.attempt),
                                shim->pid()};
  options_.scopes->Make(request, [this, alive = std::weak_ptr<int>(alive_), shim,
                                  bootstrap = std::make_shared<internal::ShimBootstrap>(std::move(
                                      bootstrap))](const absl::StatusOr<std::string>& scope) {
    if (alive.expired()) return;
    if (!shim->dead()) NoteScope(shim->id(), scope.status());
    Begin(shim, scope.ok() ? *scope : options_.cgroup_parent, bootstrap.get());
  });
}

void ShimLauncher::NoteScope(const AttemptId& id, const absl::Status& made) {
  if (made.ok() == !scopes_fail_) return;
  scopes_fail_ = !made.ok();
  if (made.ok()) {
    spdlog::info("jobs have scopes of systemd again job={} attempt={}", id.job.value(), id.attempt);
  } else {
    spdlog::warn(
        "no scope of systemd, jobs run in groups below the agent's as long as that is so job={} "
        "attempt={} error=\"{}\"",
        id.job.value(), id.attempt, MessageOf(made));
  }
}

void ShimLauncher::Begin(const Follower& shim, const std::string& cgroup_parent,
                         internal::ShimBootstrap* bootstrap) {
  if (shim->dead()) return;
  if (shim->detached()) {
    // Swept or released while it waited.
    shim->Kill();
    return;
  }
  if (!cgroup_parent.empty()) {
    const absl::Status added = AddCgroup(shim->id(), *shim->directory(), cgroup_parent, bootstrap);
    if (!added.ok()) {
      shim->Kill();
      shim->Fail(std::string(MessageOf(added)));
      return;
    }
  }
  if (bootstrap->has_engine()) {
    // Before the start: whoever sweeps must know that there may be containers.
    internal::ShimBootstrap kept;
    *kept.mutable_engine() = bootstrap->engine();
    if (bootstrap->has_run_as()) *kept.mutable_run_as() = bootstrap->run_as();
    // Whose slots they are, which nobody may have while there are containers.
    kept.set_job_id(bootstrap->job_id());
    kept.set_attempt(bootstrap->attempt());
    kept.set_node_id(bootstrap->node_id());
    kept.set_lease_directory(bootstrap->lease_directory());
    kept.set_slots_are_cards(bootstrap->slots_are_cards());
    kept.set_card_leases_per_node(bootstrap->card_leases_per_node());
    kept.set_holder(bootstrap->holder());
    *kept.mutable_slots() = bootstrap->slots();
    const absl::Status written =
        shim->directory()->WriteText(kEngineFile, kept.SerializeAsString());
    if (!written.ok()) {
      shim->Kill();
      shim->Fail(std::string(MessageOf(written)));
      return;
    }
  }
  shim->Begin(*bootstrap);
}

void ShimLauncher::Launch(const AttemptId& id, internal::ShimBootstrap bootstrap) {
  Follower shim = Make(id);
  if (ending_) {
    shim->Fail("the agent of the node is about to end");
    return;
  }
  absl::StatusOr<AttemptDirectory> directory =
      AttemptDirectory::Create(root_.get(), options_.attempts_directory, id);
  if (absl::IsAlreadyExists(directory.status())) {
    directory = AttemptDirectory::Open(root_.get(), options_.attempts_directory, id);
    if (directory.ok()) {
      const absl::StatusOr<bool> free = directory->TryLock();
      bool recorded = false;
      const absl::Status read = directory->ReadRecords(1, [&](const internal::ShimRecord&) {
        recorded = true;
        return false;
      });
      if (!free.ok() || !*free || recorded || !read.ok()) {
        // It was started by an agent that died. A second one must never run.
        shim->Adopt(*std::move(directory), 1);
        return;
      }
      directory->Unlock();
    }
  }
  if (!directory.ok()) {
    shim->Fail(std::string(MessageOf(directory.status())));
    return;
  }
  FillBootstrap(*directory, &bootstrap);
  const ShimCommand command = {options_.shim_binary, options_.environ, directory->fd()};
  shim->Launch(*std::move(directory), command);
  // Without a process the reason is told already.
  if (shim->pid() == 0) return;
  if (options_.scopes == nullptr) {
    Begin(shim, options_.cgroup_parent, &bootstrap);
  } else {
    MakeScope(shim, std::move(bootstrap));
  }
}

}  // namespace muster
