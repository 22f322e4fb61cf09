#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/flow/actor.h"
#include "runtime/flow/step_options.h"

namespace troupe {

/// A state machine that decides about commits and replacements. It has no clock and no threads, and
/// does not access actors. A step is committed when every voting actor has voted for it, and it
/// waits for no writer.
class Supervisor {
 public:
  struct SupervisedActor {
    std::string name;
    bool votes = false;
    bool outlives_steps = false;
    bool restarts_step = false;
    bool takes_snapshots = false;
    std::vector<std::size_t> neighbours = {};  ///< actors at the other ends of its edges
  };
  using Clock = std::chrono::steady_clock;

  Supervisor(std::vector<SupervisedActor> actors, StepOptions steps, RestartBudget budget);

  /// The last commit again if the run has no steps left: actors that wait for the last one end.
  std::optional<Commit> begin();
  /// Counts a vote. Returns the commit that it completes, if any. `now` matters only for
  /// StepOptions::snapshot_after.
  std::optional<Commit> vote(std::size_t actor, std::uint32_t step, Clock::time_point now = {});
  /// The commit of the open step, if all have voted for it and it waits for nothing. To be called
  /// whenever a writer may have become free (StepOptions::exact_snapshot_every).
  std::optional<Commit> commit_if_ready(Clock::time_point now = {});
  /// Ends the run with the steps before `step` (Actor::end_before). Returns their last commit
  /// again, unless the step is not the open one or the run has ended.
  std::optional<Commit> end_before(std::uint32_t step);
  /// Returns the actors to replace after `actor` failed with `cause`: this actor alone, or all
  /// actors that take part in steps. All are replaced in two cases: the actor held data that its
  /// neighbours have released (Actor::restarts_step), or a neighbour was already replaced alone
  /// since the last restart of a step. In the second case, the messages from that neighbour that
  /// this actor had not released are lost. Throws Error{actor_failed}, root cause first, if the
  /// restart budget is spent.
  std::vector<std::size_t> actor_failed(std::size_t actor, const std::string& cause,
                                        Clock::time_point now);
  void finished(std::size_t actor);
  /// Stops the run at the next commit. After the last one, the run ends by itself, with its
  /// evaluation and checkpoint. Returns true if the run has no steps, so that the caller ends it.
  bool request_stop();
  /// See Actor::accept_snapshots.
  void accept_snapshots(std::size_t actor, bool yes) { busy_.at(actor) = !yes; }

  /// The last step is committed and no actor holds the run open.
  bool done() const;
  /// The newest commit, for actors whose previous incarnation may have missed it.
  const std::optional<Commit>& newest_commit() const { return newest_commit_; }
  /// All have voted for the open step, whose snapshot may not be late, and a writer is busy.
  bool waits_for_writer() const;
  bool has_voters() const;
  bool has_votes() const;                          ///< for the next commit
  std::vector<std::size_t> missing_votes() const;  ///< for the next commit, if one follows
  std::uint32_t steps() const { return steps_; }   ///< committed steps
  bool stopped() const { return stopped_; }        ///< ended before the last step
  int restarts(std::size_t actor) const { return restarts_[actor]; }

 private:
  Commit commit(Clock::time_point now);
  bool is_snapshot_due(Clock::time_point now) const;
  bool has_busy_writer() const;

  std::vector<SupervisedActor> actors_;
  StepOptions options_;
  RestartBudget budget_;
  std::uint32_t steps_;
  std::vector<bool> ballots_;         ///< for step `steps_`
  std::vector<bool> replaced_alone_;  ///< since the last restart of a step
  std::vector<bool> finished_;
  std::vector<int> restarts_;
  struct FailureRecord {
    Clock::time_point when;
    std::uint32_t steps = 0;  ///< committed steps
    std::string cause;
  };
  std::vector<std::deque<FailureRecord>> failures_;
  bool snapshot_due_ = false;
  std::optional<Clock::time_point> last_snapshot_;  ///< or the first commit
  std::vector<bool> busy_;                          ///< writing a snapshot
  bool stop_requested_ = false;
  bool stopped_ = false;
  std::optional<Commit> newest_commit_;
  bool has_steps() const { return options_.first < options_.count; }
  bool ended() const;
};

}  // namespace troupe
