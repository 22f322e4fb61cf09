// Carries out what the lead orders.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/flow/process_supervisor.h"

namespace troupe::flow {
namespace {

bool is_here(const ProcessSupervisor& supervisor, std::size_t actor) {
  return supervisor.shared->placement.is_here(actor);
}

void conclude(SupervisorSelf self, Result<RunReport> result) {
  ProcessSupervisor& supervisor = self->state;
  if (result) result.value().wall = Clock::now() - supervisor.shared->start;
  supervisor.shared->done(std::move(result));
  self->quit();
}

void commit(SupervisorSelf self, const Commit& commit) {
  ProcessSupervisor& supervisor = self->state;
  for (std::size_t actor = 0; actor < supervisor.ballots.size(); ++actor) {
    auto& ballot = supervisor.ballots[actor];
    if (!ballot || ballot->first != commit.step) continue;
    supervisor.committed[actor] = std::move(ballot->second);
    ballot.reset();
  }
  for (const auto& host : supervisor.hosts)
    if (host) self->send(host, commit);
}

// A new life with the state of the last commit; it begins with the phase `start`.
void make_life(SupervisorSelf self, std::size_t actor, const Replacement& order) {
  ProcessSupervisor& supervisor = self->state;
  if (supervisor.hosts[actor]) {
    self->demonitor(supervisor.hosts[actor]);
    caf::anon_send_exit(supervisor.hosts[actor], caf::exit_reason::kill);
    supervisor.hosts[actor] = nullptr;  // it answers no Stop, should its successor not come to be
  }
  supervisor.ballots[actor].reset();
  auto core = supervisor.shared->graph.make_actor(actor);
  core->restore(supervisor.committed[actor], order.steps);
  spawn_host(self, actor, std::move(core));
}

void prepare(SupervisorSelf self, const Replacement& order) {
  ProcessSupervisor& supervisor = self->state;
  for (const std::uint32_t actor : order.actors) {
    const std::string& told = supervisor.causes.at(actor);
    const std::string cause = told.empty() ? "it had to begin the step again with others" : told;
    supervisor.incarnations[actor] = order.incarnation;
    if (is_here(supervisor, actor)) {
      try {
        make_life(self, actor, order);
      } catch (const std::exception& error) {
        return fail(self, Error(ErrorCode::actor_failed,
                                fmt::format("{} failed: {}; its replacement could not be made: {}",
                                            supervisor.shared->graph.actors()[actor].name, cause,
                                            error.what())));
      }
    }
    supervisor.shared->directory.set(actor, {supervisor.hosts[actor], order.incarnation});
  }
  const Placement& placement = supervisor.shared->placement;
  for (std::uint32_t process = 0; process < placement.processes(); ++process)
    if (process != placement.here())
      supervisor.shared->options.bridge->send(process, RunMessage(Flushed{order.incarnation}));
  supervisor.preparing = order;
  report_if_prepared(self);
}

// The neighbours learn of the new lives and send what the old ones had not released. Nobody can
// return a credit to the dead from now on: it would be lost.
void rewire(SupervisorSelf self, const Replacement& order) {
  ProcessSupervisor& supervisor = self->state;
  for (std::size_t other = 0; other < supervisor.hosts.size(); ++other) {
    if (!supervisor.hosts[other] || std::ranges::find(order.actors, other) != order.actors.end())
      continue;
    for (const std::uint32_t actor : order.actors)
      self->send(supervisor.hosts[other], Replaced{actor, supervisor.shared->directory.get(actor)});
  }
  tell_lead(self, PhaseDone{ReplacementPhase::rewire, order.incarnation});
}

void start(SupervisorSelf self, const Replacement& order) {
  ProcessSupervisor& supervisor = self->state;
  const auto peers =
      std::make_shared<const std::vector<ActorAddress>>(supervisor.shared->directory.all());
  for (const std::uint32_t actor : order.actors) {
    if (!supervisor.hosts[actor]) continue;
    self->send(supervisor.hosts[actor], Wire{peers, order.incarnation});
    if (order.newest) self->send(supervisor.hosts[actor], *order.newest);
  }
  tell_lead(self, PhaseDone{ReplacementPhase::start, order.incarnation});
}

}  // namespace

void tell_lead(SupervisorSelf self, RunMessage note) {
  ProcessSupervisor& supervisor = self->state;
  const Placement& placement = supervisor.shared->placement;
  if (!placement.leads()) return supervisor.shared->options.bridge->send(0, std::move(note));
  supervisor.heard.emplace_back(placement.here(), std::move(note));
  let_lead_decide(self);
}

void give_order(ProcessSupervisor& supervisor, const RunMessage& order) {
  const Placement& placement = supervisor.shared->placement;
  for (std::uint32_t process = 0; process < placement.processes(); ++process)
    if (process != placement.here()) supervisor.shared->options.bridge->send(process, order);
  supervisor.orders.push_back(order);
}

void let_lead_decide(SupervisorSelf self) {
  ProcessSupervisor& supervisor = self->state;
  if (supervisor.draining || !supervisor.lead) return;
  supervisor.draining = true;
  while (!supervisor.orders.empty() || !supervisor.heard.empty()) {
    if (!supervisor.orders.empty()) {
      const RunMessage order = std::move(supervisor.orders.front());
      supervisor.orders.pop_front();
      attempt(self, [&] { obey(self, order); });
    } else {
      const auto heard = std::move(supervisor.heard.front());
      supervisor.heard.pop_front();
      attempt(self, [&] { supervisor.lead->hear(heard.first, heard.second, Clock::now()); });
    }
  }
  supervisor.draining = false;
  if (supervisor.lead->concluded()) conclude(self, supervisor.lead->report());
}

void spawn_host(SupervisorSelf self, std::size_t actor, std::unique_ptr<Actor> core) {
  ProcessSupervisor& supervisor = self->state;
  supervisor.shared->gauges[actor].waiting = 0;
  supervisor.causes[actor].clear();
  // Lazily started CAF actors take their arguments by value; the box lets a unique_ptr through.
  auto box = std::make_shared<std::unique_ptr<Actor>>(std::move(core));
  supervisor.hosts[actor] =
      self->spawn(host_actor, supervisor.shared, actor, box, caf::actor_cast<caf::actor>(self));
  self->monitor(supervisor.hosts[actor]);
}

void end_run(SupervisorSelf self, const EndRun& end) {
  ProcessSupervisor& supervisor = self->state;
  if (supervisor.stopping) return;
  supervisor.stopping = true;
  supervisor.end = end;
  for (const auto& host : supervisor.hosts) {
    if (!host) continue;  // dead, and not replaced any more, or of another process
    ++supervisor.awaited;
    self->send(host, Stop{});
  }
  if (supervisor.awaited == 0) tell_ended(self);
}

void tell_ended(SupervisorSelf self) {
  ProcessSupervisor& supervisor = self->state;
  ProcessEnded ended{.begun = supervisor.begun, .trace = std::move(supervisor.trace)};
  for (std::size_t actor = 0; actor < supervisor.reports.size(); ++actor) {
    if (!is_here(supervisor, actor)) continue;
    supervisor.reports[actor].process = supervisor.shared->placement.here();
    supervisor.reports[actor].peak_mailbox = supervisor.shared->gauges[actor].peak;
    ended.actors.push_back(std::move(supervisor.reports[actor]));
  }
  if (supervisor.lead) return tell_lead(self, std::move(ended));
  if (supervisor.shared->placement.leads())
    return conclude(self, *supervisor.end->failure);  // it could not even begin
  RunReport report{.actors = ended.actors,
                   .trace = ended.trace,
                   .steps = supervisor.end->steps,
                   .replacements = supervisor.end->replacements,
                   .stopped = supervisor.end->stopped};
  tell_lead(self, std::move(ended));
  if (supervisor.end->failure) return conclude(self, *supervisor.end->failure);
  conclude(self, std::move(report));
}

void fail(SupervisorSelf self, Error error) {
  ProcessSupervisor& supervisor = self->state;
  if (supervisor.lead || !supervisor.shared->placement.leads())
    return tell_lead(self, RunFailed{std::move(error)});
  end_run(self, EndRun{.failure = std::move(error)});
}

void report_if_prepared(SupervisorSelf self) {
  ProcessSupervisor& supervisor = self->state;
  if (!supervisor.preparing) return;
  const std::uint32_t incarnation = supervisor.preparing->incarnation;
  if (supervisor.flushed[incarnation] + 1 < supervisor.shared->placement.processes()) return;
  supervisor.flushed.erase(incarnation);
  supervisor.preparing.reset();
  tell_lead(self, PhaseDone{ReplacementPhase::prepare, incarnation});
}

void obey(SupervisorSelf self, const RunMessage& order) {
  if (const auto* made = std::get_if<Commit>(&order)) {
    commit(self, *made);
  } else if (const auto* end = std::get_if<EndRun>(&order)) {
    end_run(self, *end);
  } else if (const auto* replacement = std::get_if<Replacement>(&order)) {
    if (self->state.stopping) return;
    switch (replacement->phase) {
      case ReplacementPhase::prepare:
        return prepare(self, *replacement);
      case ReplacementPhase::rewire:
        return rewire(self, *replacement);
      case ReplacementPhase::start:
        return start(self, *replacement);
    }
  }
}

}  // namespace troupe::flow
