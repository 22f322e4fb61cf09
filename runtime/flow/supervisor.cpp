#include "runtime/flow/supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/text.h"

namespace troupe {

Supervisor::Supervisor(std::vector<SupervisedActor> actors, StepOptions options,
                       RestartBudget budget)
    : actors_(std::move(actors)),
      options_(std::move(options)),
      budget_(budget),
      steps_(options.first),
      ballots_(actors_.size(), false),
      replaced_alone_(actors_.size(), false),
      finished_(actors_.size(), false),
      restarts_(actors_.size(), 0),
      failures_(actors_.size()),
      busy_(actors_.size(), false) {}

std::optional<Commit> Supervisor::begin() {
  if (has_steps() || steps_ == 0) return std::nullopt;
  newest_commit_ = Commit{.step = steps_ - 1, .last = true};  // the run began from its snapshot
  return newest_commit_;
}

std::optional<Commit> Supervisor::vote(std::size_t actor, std::uint32_t step,
                                       Clock::time_point now) {
  // A replacement votes again after the commit, or an actor began before it knew of the last one.
  if (step != steps_ || ended()) return std::nullopt;
  ballots_[actor] = true;
  return commit_if_ready(now);
}

std::optional<Commit> Supervisor::commit_if_ready(Clock::time_point now) {
  if (ended() || !has_votes() || !missing_votes().empty() || waits_for_writer())
    return std::nullopt;
  return commit(now);
}

std::optional<Commit> Supervisor::end_before(std::uint32_t step) {
  if (step != steps_ || step == 0 || ended()) return std::nullopt;
  Commit result{.step = step - 1, .last = true};
  // A run that has committed nothing itself began from a snapshot: nobody sends it.
  const bool sent = newest_commit_ && newest_commit_->snapshot;
  result.snapshot = options_.snapshot_at_end && newest_commit_ && !sent;
  newest_commit_ = result;
  newest_commit_->snapshot |= sent;
  return result;
}

bool Supervisor::waits_for_writer() const {
  const std::uint32_t period = options_.exact_snapshot_every;
  return period != 0 && (steps_ + 1) % period == 0 && has_busy_writer() && has_votes() &&
         missing_votes().empty();
}

bool Supervisor::has_busy_writer() const { return std::ranges::find(busy_, true) != busy_.end(); }

bool Supervisor::is_snapshot_due(Clock::time_point now) const {
  if (const std::uint32_t exact = options_.exact_snapshot_every; exact != 0 && steps_ % exact == 0)
    return true;
  for (const std::uint32_t period : options_.snapshot_every)
    if (period != 0 && steps_ % period == 0) return true;
  const auto after = options_.snapshot_after;
  return after.count() > 0 && last_snapshot_ && now - *last_snapshot_ >= after;
}

Commit Supervisor::commit(Clock::time_point now) {
  ballots_.assign(actors_.size(), false);
  Commit result{.step = steps_++};
  // A stop request during the last step changes nothing.
  result.stop_requested = stopped_ = stop_requested_ && steps_ < options_.count;
  result.last = stopped_ || steps_ >= options_.count;
  if (is_snapshot_due(now)) snapshot_due_ = true;
  if (!last_snapshot_) last_snapshot_ = now;
  if (result.last && (options_.snapshot_at_end || stopped_)) snapshot_due_ = true;
  // While a writer is busy, the snapshot is deferred to a later commit. The last one is always
  // sent; its slot is free or becomes free.
  result.snapshot = snapshot_due_ && (!has_busy_writer() || result.last);
  if (result.snapshot) {
    snapshot_due_ = false;
    last_snapshot_ = now;
    for (std::size_t i = 0; i < actors_.size(); ++i) busy_[i] = actors_[i].takes_snapshots;
  }
  newest_commit_ = result;
  return result;
}

std::vector<std::size_t> Supervisor::actor_failed(std::size_t actor, const std::string& cause,
                                                  Clock::time_point now) {
  auto& failures = failures_[actor];
  while (!failures.empty() && now - failures.front().when > budget_.within &&
         failures.front().steps != steps_)
    failures.pop_front();
  failures.push_back({now, steps_, cause});
  if (static_cast<int>(failures.size()) > budget_.max) {
    const std::string& first = failures.front().cause;
    throw Error(
        ErrorCode::actor_failed,
        fmt::format("{} failed: {} (failure {}{}; within {}, or without a committed step in "
                    "between, `RestartBudget::max` is {})",
                    actors_[actor].name, first, failures.size(),
                    first == cause ? "" : ", the last one: " + cause,
                    in_words(std::chrono::duration_cast<std::chrono::milliseconds>(budget_.within)),
                    budget_.max),
        "fix the cause, or raise `RestartBudget::max`");
  }
  const bool restart_step = actors_[actor].restarts_step ||
                            std::ranges::any_of(actors_[actor].neighbours,
                                                [&](std::size_t n) { return replaced_alone_[n]; });
  std::vector<std::size_t> replaced;
  for (std::size_t i = 0; i < actors_.size(); ++i)
    if (i == actor || (restart_step && !actors_[i].outlives_steps)) replaced.push_back(i);
  if (restart_step) replaced_alone_.assign(actors_.size(), false);
  if (!restart_step) replaced_alone_[actor] = true;
  for (std::size_t i : replaced) {
    ballots_[i] = false;  // it votes again: a commit must not reach it before it has a next state
    ++restarts_[i];
    busy_[i] = false;  // a new writer can take the next snapshot
  }
  // Nobody sends the snapshot again that it was taking, for which other writers may wait.
  if (restart_step && actors_[actor].takes_snapshots) busy_.assign(actors_.size(), false);
  return replaced;
}

void Supervisor::finished(std::size_t actor) { finished_.at(actor) = true; }

bool Supervisor::request_stop() {
  stop_requested_ = true;
  if (!has_voters()) return true;
  if (has_steps()) return false;
  stopped_ = true;
  return true;
}

bool Supervisor::has_votes() const { return std::ranges::find(ballots_, true) != ballots_.end(); }

std::vector<std::size_t> Supervisor::missing_votes() const {
  std::vector<std::size_t> missing;
  if (ended()) return missing;
  for (std::size_t i = 0; i < actors_.size(); ++i)
    if (actors_[i].votes && !ballots_[i]) missing.push_back(i);
  return missing;
}

bool Supervisor::has_voters() const {
  return std::ranges::any_of(actors_, &SupervisedActor::votes);
}

// A resumed run may have no steps left, only work that follows the last step.
bool Supervisor::ended() const {
  if (!has_steps()) return true;
  return newest_commit_ && newest_commit_->last;
}

bool Supervisor::done() const {
  if (has_voters() && !ended()) return false;
  for (std::size_t i = 0; i < actors_.size(); ++i)
    if (actors_[i].outlives_steps && !finished_[i]) return false;
  return true;
}

}  // namespace troupe
