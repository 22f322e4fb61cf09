#include "runtime/flow/lead.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/text.h"

namespace troupe {
namespace {

std::vector<Supervisor::Member> members_of(const Graph& graph) {
  std::vector<Supervisor::Member> members;
  for (const auto& node : graph.nodes())
    members.push_back({.name = node.name,
                       .votes = node.prototype->votes(),
                       .holds_run_open = node.prototype->holds_run_open(),
                       .needs_whole_step = node.prototype->needs_whole_step(),
                       .takes_snapshots = node.prototype->takes_snapshots()});
  for (const auto& edge : graph.edges()) {
    members[edge.from].neighbours.push_back(edge.to);
    members[edge.to].neighbours.push_back(edge.from);
  }
  return members;
}

}  // namespace

Lead::Lead(const Graph& graph, const Placement& placement, const RunOptions& options,
           std::int64_t begun, Order order)
    : graph_(graph),
      placement_(placement),
      options_(options),
      order_(std::move(order)),
      supervisor_(members_of(graph), options.steps, options.restarts),
      begun_(begun),
      generations_(graph.nodes().size(), 0),
      waited_for_(placement.processes(), false),
      ended_(placement.processes(), false),
      missing_(placement.processes()) {
  report_.actors.resize(graph.nodes().size());
}

void Lead::hear(std::uint32_t process, const Note& note, Supervisor::Clock::time_point now) {
  if (const auto* vote_cast = std::get_if<VoteCast>(&note)) {
    vote(*vote_cast);
  } else if (const auto* death = std::get_if<ActorDied>(&note)) {
    died(*death, now);
  } else if (const auto* news = std::get_if<ActorNews>(&note)) {
    if (news->accepts_snapshot) supervisor_.accept_snapshots(news->node, *news->accepts_snapshot);
    if (news->finished) supervisor_.finished(news->node);
    end_if_done();
  } else if (const auto* done = std::get_if<PhaseDone>(&note)) {
    phase_done(process, *done);
  } else if (const auto* report = std::get_if<ProcessEnded>(&note)) {
    ended(process, *report);
  } else if (const auto* failed = std::get_if<RunFailed>(&note)) {
    fail(failed->error);
  } else if (std::holds_alternative<StopWanted>(note)) {
    supervisor_.request_stop();
    if (!supervisor_.has_voters()) end({});  // there is no commit to wait for
  }
}

void Lead::vote(const VoteCast& vote) {
  if (ending_ || vote.generation != generations_.at(vote.node)) return;
  const auto commit = supervisor_.vote(vote.node, vote.step);
  if (!commit) return;
  order_(*commit);
  end_if_done();
}

std::string Lead::overdue_votes(bool idle) {
  const std::uint32_t step = supervisor_.steps();
  if (looked_at_ != step) told_of_votes_ = false;
  const auto before = std::exchange(missing_votes_, supervisor_.missing_votes());
  const bool same = std::exchange(looked_at_, step) == step && before == missing_votes_;
  const bool waits = !ending_ && !missing_votes_.empty() && (idle || supervisor_.has_votes());
  if (!same || !waits || std::exchange(told_of_votes_, true)) return {};
  std::vector<std::string> names;
  for (const std::size_t node : missing_votes_) names.push_back(graph_.nodes()[node].name);
  return fmt::format(
      "step {} waits for the vote of {}{}; who votes has to do so for each step, when its part of "
      "it "
      "is done",
      step, listed(names), idle ? ", and no actor has anything to do" : "");
}

void Lead::died(const ActorDied& death, Supervisor::Clock::time_point now) {
  if (death.generation != generations_.at(death.node)) return;  // of a life that was replaced
  if (death.lasting) return fail(*death.lasting);
  if (ending_) return;
  if (replacing_) {
    deaths_.push_back(death);  // one after the other
  } else {
    replace(death, now);
  }
}

void Lead::replace(const ActorDied& death, Supervisor::Clock::time_point now) {
  std::vector<std::size_t> nodes;
  try {
    nodes = supervisor_.died(death.node, death.cause, now);
  } catch (const Error& error) {
    return fail(error);  // the budget is spent
  }
  replacing_ = Replacement{.generation = ++generation_, .steps = supervisor_.steps()};
  FailureReport report{.actor = graph_.nodes()[death.node].name,
                       .cause = death.cause,
                       .generation = generation_,
                       .steps = supervisor_.steps()};
  for (const std::size_t node : nodes) {
    generations_[node] = generation_;
    replacing_->nodes.push_back(static_cast<std::uint32_t>(node));
    report.replaced.push_back(graph_.nodes()[node].name);
  }
  begin_phase(ReplacementPhase::prepare);
  if (options_.on_failure) options_.on_failure(report);
}

void Lead::begin_phase(ReplacementPhase phase) {
  replacing_->phase = phase;
  if (phase == ReplacementPhase::start) replacing_->newest = supervisor_.newest_commit();
  waited_for_.assign(waited_for_.size(), true);
  order_(*replacing_);
}

void Lead::phase_done(std::uint32_t process, const PhaseDone& done) {
  if (!replacing_ || done.generation != replacing_->generation || done.phase != replacing_->phase)
    return;
  waited_for_[process] = false;
  if (ending_ || std::ranges::find(waited_for_, true) != waited_for_.end()) return;
  switch (done.phase) {
    case ReplacementPhase::prepare:
      return begin_phase(ReplacementPhase::rewire);
    case ReplacementPhase::rewire:
      return begin_phase(ReplacementPhase::start);
    case ReplacementPhase::start:
      replacing_.reset();
  }
  while (!replacing_ && !ending_ && !deaths_.empty()) {
    const ActorDied next = std::move(deaths_.front());
    deaths_.pop_front();
    if (next.generation == generations_[next.node]) replace(next, Supervisor::Clock::now());
  }
}

void Lead::lost(std::uint32_t process, const Error& reason) {
  if (!ended_[process]) {
    ended_[process] = true;
    --missing_;
  }
  fail(reason);
}

void Lead::fail(const Error& error) { end(error); }

void Lead::end_if_done() {
  if (supervisor_.done()) end({});
}

void Lead::end(const std::optional<Error>& failure) {
  // The first failure is the one that counts; what it brings with it is not the cause.
  if (failure && !failure_) failure_ = failure;
  if (ending_) return;
  ending_ = true;
  order_(EndRun{failure_, supervisor_.steps(), generation_, supervisor_.stopped()});
}

void Lead::ended(std::uint32_t process, const ProcessEnded& report) {
  if (ended_[process]) return;
  ended_[process] = true;
  --missing_;
  std::size_t next = 0;
  for (std::size_t node = 0; node < graph_.nodes().size(); ++node)
    if (placement_.of(node) == process && next < report.actors.size())
      report_.actors[node] = report.actors[next++];
  const std::chrono::nanoseconds shift(report.begun - begun_);
  for (TraceEvent event : report.trace) {
    event.begin += shift;
    event.end += shift;
    report_.trace.push_back(event);
  }
}

Result<RunReport> Lead::report() {
  if (failure_) return *failure_;
  for (std::size_t node = 0; node < report_.actors.size(); ++node)
    report_.actors[node].restarts = supervisor_.restarts(node);
  report_.steps = supervisor_.steps();
  report_.generation = generation_;
  report_.stopped = supervisor_.stopped();
  return std::move(report_);
}

}  // namespace troupe
