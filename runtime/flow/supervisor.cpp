#include "runtime/flow/supervisor.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/text.h"

namespace troupe {

Supervisor::Supervisor(std::vector<Member> members, StepOptions plan, RestartBudget budget)
    : members_(std::move(members)),
      plan_(plan),
      budget_(budget),
      steps_(plan.first),
      ballots_(members_.size(), false),
      replaced_alone_(members_.size(), false),
      finished_(members_.size(), false),
      restarts_(members_.size(), 0),
      deaths_(members_.size()),
      busy_(members_.size(), false) {}

std::optional<Commit> Supervisor::vote(std::size_t member, std::uint32_t step) {
  // Repeated by a replacement after the commit, or begun before the news of the last one.
  if (step != steps_ || ended()) return std::nullopt;
  ballots_[member] = true;
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (members_[i].votes && !ballots_[i]) return std::nullopt;
  return commit();
}

Commit Supervisor::commit() {
  ballots_.assign(members_.size(), false);
  Commit result{.step = steps_++};
  // A stop that comes with the last step cuts nothing short.
  result.stop_requested = stopped_ = stop_requested_ && steps_ < plan_.count;
  result.last = stopped_ || steps_ >= plan_.count;
  if (plan_.snapshot_every && steps_ % plan_.snapshot_every == 0) snapshot_due_ = true;
  if (result.last && (plan_.snapshot_at_end || stopped_)) snapshot_due_ = true;
  // A writer that is still busy gets the next commit's snapshot instead: training never waits. The
  // last one is always sent; its slot is free or becomes so.
  const bool accepted = std::ranges::find(busy_, true) == busy_.end();
  result.snapshot = snapshot_due_ && (accepted || result.last);
  if (result.snapshot) {
    snapshot_due_ = false;
    for (std::size_t i = 0; i < members_.size(); ++i) busy_[i] = members_[i].takes_snapshots;
  }
  newest_commit_ = result;
  return result;
}

std::vector<std::size_t> Supervisor::died(std::size_t member, const std::string& cause,
                                          Clock::time_point now) {
  auto& deaths = deaths_[member];
  while (!deaths.empty() && now - deaths.front().when > budget_.within &&
         deaths.front().steps != steps_)
    deaths.pop_front();
  deaths.push_back({now, steps_, cause});
  if (static_cast<int>(deaths.size()) > budget_.max)
    throw Error(
        ErrorCode::actor_failed,
        fmt::format("{} failed: {} (failure {}; within {}, or without a step between, {} "
                    "restarts are allowed)",
                    members_[member].name, deaths.front().cause, deaths.size(),
                    in_words(std::chrono::duration_cast<std::chrono::milliseconds>(budget_.within)),
                    budget_.max),
        "mend the cause, or allow more by RunOptions::restarts, then go on from a checkpoint");
  const bool whole_step = members_[member].restarts_step ||
                          std::ranges::any_of(members_[member].neighbours,
                                              [&](std::size_t n) { return replaced_alone_[n]; });
  std::vector<std::size_t> replaced;
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (i == member || (whole_step && !members_[i].holds_run_open)) replaced.push_back(i);
  if (whole_step) replaced_alone_.assign(members_.size(), false);
  if (!whole_step) replaced_alone_[member] = true;
  for (std::size_t i : replaced) {
    ballots_[i] = false;  // it votes again: a commit must not reach it before it has a next state
    ++restarts_[i];
    // A writer that forgot what it was writing can take the next snapshot.
    busy_[i] = false;
  }
  return replaced;
}

void Supervisor::finished(std::size_t member) { finished_.at(member) = true; }

bool Supervisor::has_votes() const { return std::ranges::find(ballots_, true) != ballots_.end(); }

std::vector<std::size_t> Supervisor::missing_votes() const {
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (members_[i].votes && !ballots_[i]) missing.push_back(i);
  return missing;
}

bool Supervisor::has_voters() const { return std::ranges::any_of(members_, &Member::votes); }

// A run may begin where all steps are made, for what others do after the last of them.
bool Supervisor::ended() const {
  if (plan_.first > 0 && plan_.first >= plan_.count) return true;
  return newest_commit_ && newest_commit_->last;
}

bool Supervisor::done() const {
  if (has_voters() && !ended()) return false;
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (members_[i].holds_run_open && !finished_[i]) return false;
  return true;
}

}  // namespace troupe
