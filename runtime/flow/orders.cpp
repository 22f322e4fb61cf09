// Carries out what the lead orders.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/flow/watch.h"

namespace troupe::shell {
namespace {

bool is_here(const Watch& watch, std::size_t node) { return watch.shared->placement.is_here(node); }

void conclude(WatchSelf self, Result<RunReport> result) {
  Watch& watch = self->state;
  if (result) result.value().wall = Clock::now() - watch.shared->start;
  watch.shared->done(std::move(result));
  self->quit();
}

void commit(WatchSelf self, const Commit& commit) {
  Watch& watch = self->state;
  for (std::size_t node = 0; node < watch.ballots.size(); ++node) {
    auto& ballot = watch.ballots[node];
    if (!ballot || ballot->first != commit.step) continue;
    watch.committed[node] = std::move(ballot->second);
    ballot.reset();
  }
  for (const auto& shell : watch.shells)
    if (shell) self->send(shell, commit);
}

// A new life with the state of the last commit; it begins with the phase `start`.
void make_life(WatchSelf self, std::size_t node, const Replacement& order) {
  Watch& watch = self->state;
  if (watch.shells[node]) {
    self->demonitor(watch.shells[node]);
    caf::anon_send_exit(watch.shells[node], caf::exit_reason::kill);
    watch.shells[node] = nullptr;  // it answers no Stop, should its successor not come to be
  }
  watch.ballots[node].reset();
  auto core = watch.shared->graph.make_actor(node);
  core->restore(watch.committed[node], order.steps);
  spawn_shell(self, node, std::move(core));
}

void prepare(WatchSelf self, const Replacement& order) {
  Watch& watch = self->state;
  for (const std::uint32_t node : order.nodes) {
    const std::string& told = watch.causes.at(node);
    const std::string cause = told.empty() ? "it had to begin the step again with others" : told;
    watch.generations[node] = order.generation;
    if (is_here(watch, node)) {
      try {
        make_life(self, node, order);
      } catch (const std::exception& error) {
        return fail(
            self, Error(ErrorCode::actor_failed,
                        fmt::format("{} failed: {}; its replacement could not be made: {}",
                                    watch.shared->graph.nodes()[node].name, cause, error.what())));
      }
    }
    watch.shared->directory.set(node, {watch.shells[node], order.generation});
  }
  const Placement& placement = watch.shared->placement;
  for (std::uint32_t process = 0; process < placement.processes(); ++process)
    if (process != placement.here())
      watch.shared->options.bridge->send(process, Note(Flushed{order.generation}));
  watch.preparing = order;
  report_if_prepared(self);
}

// The neighbours learn of the new lives and send what the old ones had not released. Nobody can
// return a credit to the dead from now on: it would be lost.
void rewire(WatchSelf self, const Replacement& order) {
  Watch& watch = self->state;
  for (std::size_t other = 0; other < watch.shells.size(); ++other) {
    if (!watch.shells[other] || std::ranges::find(order.nodes, other) != order.nodes.end())
      continue;
    for (const std::uint32_t node : order.nodes)
      self->send(watch.shells[other], Replaced{node, watch.shared->directory.get(node)});
  }
  tell_lead(self, PhaseDone{ReplacementPhase::rewire, order.generation});
}

void start(WatchSelf self, const Replacement& order) {
  Watch& watch = self->state;
  const auto peers = std::make_shared<const std::vector<Peer>>(watch.shared->directory.all());
  for (const std::uint32_t node : order.nodes) {
    if (!watch.shells[node]) continue;
    self->send(watch.shells[node], Wire{peers, order.generation});
    if (order.newest) self->send(watch.shells[node], *order.newest);
  }
  tell_lead(self, PhaseDone{ReplacementPhase::start, order.generation});
}

}  // namespace

void tell_lead(WatchSelf self, Note note) {
  Watch& watch = self->state;
  const Placement& placement = watch.shared->placement;
  if (!placement.leads()) return watch.shared->options.bridge->send(0, std::move(note));
  watch.heard.emplace_back(placement.here(), std::move(note));
  let_lead_decide(self);
}

void give_order(Watch& watch, const Note& order) {
  const Placement& placement = watch.shared->placement;
  for (std::uint32_t process = 0; process < placement.processes(); ++process)
    if (process != placement.here()) watch.shared->options.bridge->send(process, order);
  watch.orders.push_back(order);
}

void let_lead_decide(WatchSelf self) {
  Watch& watch = self->state;
  if (watch.draining || !watch.lead) return;
  watch.draining = true;
  while (!watch.orders.empty() || !watch.heard.empty()) {
    if (!watch.orders.empty()) {
      const Note order = std::move(watch.orders.front());
      watch.orders.pop_front();
      attempt(self, [&] { obey(self, order); });
    } else {
      const auto heard = std::move(watch.heard.front());
      watch.heard.pop_front();
      attempt(self, [&] { watch.lead->hear(heard.first, heard.second, Clock::now()); });
    }
  }
  watch.draining = false;
  if (watch.lead->concluded()) conclude(self, watch.lead->report());
}

void spawn_shell(WatchSelf self, std::size_t node, std::unique_ptr<Actor> core) {
  Watch& watch = self->state;
  watch.shared->gauges[node].waiting = 0;
  watch.causes[node].clear();
  // Lazily started CAF actors take their arguments by value; the box lets a unique_ptr through.
  auto box = std::make_shared<std::unique_ptr<Actor>>(std::move(core));
  watch.shells[node] =
      self->spawn(shell_actor, watch.shared, node, box, caf::actor_cast<caf::actor>(self));
  self->monitor(watch.shells[node]);
}

void end_run(WatchSelf self, const EndRun& end) {
  Watch& watch = self->state;
  if (watch.stopping) return;
  watch.stopping = true;
  watch.end = end;
  for (const auto& shell : watch.shells) {
    if (!shell) continue;  // dead, and not replaced any more, or of another process
    ++watch.awaited;
    self->send(shell, Stop{});
  }
  if (watch.awaited == 0) tell_ended(self);
}

void tell_ended(WatchSelf self) {
  Watch& watch = self->state;
  ProcessEnded ended{.begun = watch.begun, .trace = std::move(watch.trace)};
  for (std::size_t node = 0; node < watch.reports.size(); ++node) {
    if (!is_here(watch, node)) continue;
    watch.reports[node].process = watch.shared->placement.here();
    watch.reports[node].peak_mailbox = watch.shared->gauges[node].peak;
    ended.actors.push_back(std::move(watch.reports[node]));
  }
  if (watch.lead) return tell_lead(self, std::move(ended));
  if (watch.shared->placement.leads())
    return conclude(self, *watch.end->failure);  // it could not even begin
  RunReport report{.actors = ended.actors,
                   .trace = ended.trace,
                   .steps = watch.end->steps,
                   .generation = watch.end->generation,
                   .stopped = watch.end->stopped};
  tell_lead(self, std::move(ended));
  if (watch.end->failure) return conclude(self, *watch.end->failure);
  conclude(self, std::move(report));
}

void fail(WatchSelf self, Error error) {
  Watch& watch = self->state;
  if (watch.lead || !watch.shared->placement.leads())
    return tell_lead(self, RunFailed{std::move(error)});
  end_run(self, EndRun{.failure = std::move(error)});
}

void report_if_prepared(WatchSelf self) {
  Watch& watch = self->state;
  if (!watch.preparing) return;
  const std::uint32_t generation = watch.preparing->generation;
  if (watch.flushed[generation] + 1 < watch.shared->placement.processes()) return;
  watch.flushed.erase(generation);
  watch.preparing.reset();
  tell_lead(self, PhaseDone{ReplacementPhase::prepare, generation});
}

void obey(WatchSelf self, const Note& order) {
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

}  // namespace troupe::shell
