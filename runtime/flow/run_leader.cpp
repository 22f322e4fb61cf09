#include "runtime/flow/run_leader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/text.h"

namespace troupe {
namespace {

std::vector<Supervisor::SupervisedActor> actors_of(const Graph& graph) {
  std::vector<Supervisor::SupervisedActor> actors;
  for (const auto& actor : graph.actors())
    actors.push_back({.name = actor.name,
                      .votes = actor.prototype->votes(),
                      .outlives_steps = actor.prototype->outlives_steps(),
                      .restarts_step = actor.prototype->restarts_step(),
                      .takes_snapshots = actor.prototype->takes_snapshots()});
  for (const auto& edge : graph.edges()) {
    actors[edge.from].neighbours.push_back(edge.to);
    actors[edge.to].neighbours.push_back(edge.from);
  }
  return actors;
}

}  // namespace

RunLeader::RunLeader(const Graph& graph, const Placement& placement, const RunOptions& options,
                     std::int64_t begun, Order order)
    : graph_(graph),
      placement_(placement),
      options_(options),
      order_(std::move(order)),
      supervisor_(actors_of(graph), options.steps, options.restarts),
      begun_(begun),
      incarnations_(graph.actors().size(), 0),
      waited_for_(placement.processes(), false),
      ended_(placement.processes(), false),
      missing_(placement.processes()) {
  report_.actors.resize(graph.actors().size());
}

void RunLeader::begin() {
  if (const auto commit = supervisor_.begin()) order_(*commit);
  if (supervisor_.has_voters()) end_if_done();  // there may be no step to make
}

void RunLeader::receive(std::uint32_t process, const RunMessage& message,
                        Supervisor::Clock::time_point now) {
  if (const auto* vote_cast = std::get_if<Vote>(&message)) {
    vote(*vote_cast, now);
  } else if (const auto* failure = std::get_if<ActorFailed>(&message)) {
    actor_failed(*failure, now);
  } else if (const auto* status = std::get_if<ActorStatus>(&message)) {
    if (status->accepts_snapshot)
      supervisor_.accept_snapshots(status->actor, *status->accepts_snapshot);
    if (status->finished) supervisor_.finished(status->actor);
    commit_if_ready(now);
    end_if_done();
  } else if (const auto* done = std::get_if<PhaseDone>(&message)) {
    phase_done(process, *done, now);
  } else if (const auto* part = std::get_if<TracePart>(&message)) {
    add_trace(*part);
  } else if (const auto* report = std::get_if<ProcessEnded>(&message)) {
    ended(process, *report);
  } else if (const auto* failed = std::get_if<RunFailed>(&message)) {
    end(failed->error);
  } else if (std::holds_alternative<StopRequest>(message)) {
    if (!ending_ && supervisor_.request_stop()) end({});
  }
}

void RunLeader::vote(const Vote& vote, Supervisor::Clock::time_point now) {
  if (ending_ || vote.incarnation != incarnations_.at(vote.actor)) return;
  const auto commit =
      vote.ends ? supervisor_.end_before(vote.step) : supervisor_.vote(vote.actor, vote.step, now);
  if (!commit) return;
  order_(*commit);
  end_if_done();
}

void RunLeader::commit_if_ready(Supervisor::Clock::time_point now) {
  if (ending_ || replacing_) return;  // the end of a replacement asks again
  const auto commit = supervisor_.commit_if_ready(now);
  if (!commit) return;
  order_(*commit);
  end_if_done();
}

std::string RunLeader::missing_votes() const {
  std::vector<std::string> names;
  for (const std::size_t actor : supervisor_.missing_votes())
    names.push_back(graph_.actors()[actor].name);
  if (names.empty()) return {};
  return fmt::format("step {} waits for the vote of {}", supervisor_.steps(), listed(names));
}

std::string RunLeader::overdue_votes(bool idle, const std::vector<std::string>& holders) {
  const std::uint32_t step = supervisor_.steps();
  if (checked_step_ != step) has_warned_ = false;
  const auto before = std::exchange(missing_votes_, supervisor_.missing_votes());
  const bool same = std::exchange(checked_step_, step) == step && before == missing_votes_;
  const bool waits = !ending_ && !missing_votes_.empty() && (idle || supervisor_.has_votes());
  const bool writes = !ending_ && supervisor_.waits_for_writer();
  if (!same || !(waits || writes) || std::exchange(has_warned_, true)) return {};
  if (writes)
    return fmt::format("step {} waits until the checkpoint before its own is written", step);
  return fmt::format(
      "{}{}; every voting actor must vote once per step, when its part of the step is done{}{}",
      missing_votes(), idle ? ", and no actor has anything to do" : "",
      idle ? ", and every actor must release the messages that it takes" : "",
      idle && !holders.empty() ? "; " + listed(holders, 4) : "");
}

void RunLeader::actor_failed(const ActorFailed& failure, Supervisor::Clock::time_point now) {
  if (failure.incarnation != incarnations_.at(failure.actor)) return;  // replaced meanwhile
  if (failure.lasting) return end(*failure.lasting);
  if (ending_) return;
  if (replacing_) {
    failures_.push_back(failure);  // one after the other
  } else {
    replace(failure, now);
  }
}

void RunLeader::replace(const ActorFailed& failure, Supervisor::Clock::time_point now) {
  std::vector<std::size_t> actors;
  try {
    actors = supervisor_.actor_failed(failure.actor, failure.cause, now);
  } catch (const Error& error) {
    return end(error);  // the budget is spent
  }
  replacing_ = Replacement{.incarnation = ++incarnation_, .steps = supervisor_.steps()};
  FailureReport report{.actor = graph_.actors()[failure.actor].name,
                       .cause = failure.cause,
                       .incarnation = incarnation_,
                       .steps = supervisor_.steps()};
  for (const std::size_t actor : actors) {
    incarnations_[actor] = incarnation_;
    replacing_->actors.push_back(static_cast<std::uint32_t>(actor));
    report.replaced.push_back(graph_.actors()[actor].name);
  }
  begin_phase(ReplacementPhase::prepare);
  if (options_.on_failure) options_.on_failure(report);
}

void RunLeader::begin_phase(ReplacementPhase phase) {
  replacing_->phase = phase;
  if (phase == ReplacementPhase::start) replacing_->newest = supervisor_.newest_commit();
  waited_for_.assign(waited_for_.size(), true);
  order_(*replacing_);
}

void RunLeader::phase_done(std::uint32_t process, const PhaseDone& done,
                           Supervisor::Clock::time_point now) {
  if (!replacing_ || done.incarnation != replacing_->incarnation || done.phase != replacing_->phase)
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
      commit_if_ready(now);
  }
  while (!replacing_ && !ending_ && !failures_.empty()) {
    const ActorFailed next = std::move(failures_.front());
    failures_.pop_front();
    if (next.incarnation == incarnations_[next.actor]) replace(next, now);
  }
}

void RunLeader::lost(std::uint32_t process, const Error& reason) {
  if (ended_[process]) return;  // its part of the run is done
  ended_[process] = true;
  --missing_;
  end(reason);
}

void RunLeader::end_if_done() {
  if (supervisor_.done()) end({});
}

void RunLeader::end(const std::optional<Error>& failure) {
  // The first failure is the one that counts; what it brings with it is not the cause.
  if (failure && !failure_) failure_ = failure;
  if (ending_) return;
  ending_ = true;
  order_(EndRun{failure_, supervisor_.steps(), incarnation_, supervisor_.stopped()});
}

void RunLeader::add_trace(const TracePart& part) {
  const std::chrono::nanoseconds shift(part.begun - begun_);
  for (TraceEvent event : part.events) {
    event.begin += shift;
    event.end += shift;
    report_.trace.push_back(std::move(event));
  }
}

void RunLeader::ended(std::uint32_t process, const ProcessEnded& report) {
  if (ended_[process]) return;
  ended_[process] = true;
  --missing_;
  std::size_t next = 0;
  for (std::size_t actor = 0; actor < graph_.actors().size(); ++actor)
    if (placement_.of(actor) == process && next < report.actors.size())
      report_.actors[actor] = report.actors[next++];
}

Result<RunReport> RunLeader::report() {
  if (failure_) return *failure_;
  for (std::size_t actor = 0; actor < report_.actors.size(); ++actor)
    report_.actors[actor].restarts = supervisor_.restarts(actor);
  report_.steps = supervisor_.steps();
  report_.replacements = incarnation_;
  report_.stopped = supervisor_.stopped();
  return std::move(report_);
}

}  // namespace troupe
