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

/// Decides what becomes of steps and of dead actors; a plain state machine without clock, threads
/// or actors of its own. A step is whole when every voter has voted for it.
class Supervisor {
 public:
  struct Member {
    std::string name;
    bool votes = false;
    bool holds_run_open = false;
    bool restarts_step = false;
    bool takes_snapshots = false;
    std::vector<std::size_t> neighbours = {};  ///< members at the other ends of its edges
  };
  using Clock = std::chrono::steady_clock;

  Supervisor(std::vector<Member> members, StepOptions plan, RestartBudget budget);

  /// Counts a vote; the commit that it completes, if any.
  std::optional<Commit> vote(std::size_t member, std::uint32_t step);
  /// The members to replace after `member` died of `cause`: itself alone, or with it all that take
  /// part in steps. The latter when others cannot give it back what it had collected, and when a
  /// neighbour was replaced alone before: what that one had sent, perhaps for steps to come, and
  /// this one had not released is gone with both, so the step begins again, new to all. Throws
  /// Error{actor_failed}, root cause first, when the budget is spent.
  std::vector<std::size_t> died(std::size_t member, const std::string& cause,
                                Clock::time_point now);
  void finished(std::size_t member);
  void request_stop() { stop_requested_ = true; }
  /// A writer can take the next snapshot, or cannot. Commits ask for one when all writers can.
  void accept_snapshots(std::size_t member, bool yes) { busy_.at(member) = !yes; }

  /// The last commit is made and nobody holds the run open.
  bool done() const;
  /// The newest commit, for actors whose former life may not have heard of it.
  const std::optional<Commit>& newest_commit() const { return newest_commit_; }
  bool has_voters() const;
  bool has_votes() const;  ///< for the next commit
  std::vector<std::size_t> missing_votes() const;
  std::uint32_t steps() const { return steps_; }  ///< whole steps so far
  bool stopped() const { return stopped_; }       ///< the last commit came before the last step
  int restarts(std::size_t member) const { return restarts_[member]; }

 private:
  Commit commit();

  std::vector<Member> members_;
  StepOptions plan_;
  RestartBudget budget_;
  std::uint32_t steps_;
  std::vector<bool> ballots_;         ///< for step `steps_`
  std::vector<bool> replaced_alone_;  ///< since the last time that a step began again
  std::vector<bool> finished_;
  std::vector<int> restarts_;
  struct Death {
    Clock::time_point when;
    std::uint32_t steps = 0;  ///< that were whole
    std::string cause;
  };
  std::vector<std::deque<Death>> deaths_;
  bool snapshot_due_ = false;
  std::vector<bool> busy_;  ///< with a snapshot
  bool stop_requested_ = false;
  bool stopped_ = false;
  std::optional<Commit> newest_commit_;
  bool ended() const;
};

}  // namespace troupe
