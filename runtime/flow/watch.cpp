#include <fmt/format.h>

#include <algorithm>

#include "runtime/flow/shell.h"

namespace troupe::shell {
namespace {

using Self = CafActor<Watch>*;

bool is_here(const Watch& watch, std::size_t node) { return watch.shared->placement.is_here(node); }

void drain(Self self);

// Tells the lead, wherever it is.
void tell_lead(Self self, Note note) {
  Watch& watch = self->state;
  const Placement& placement = watch.shared->placement;
  if (!placement.leads()) return watch.shared->options.bridge->send(0, std::move(note));
  watch.heard.emplace_back(placement.here(), std::move(note));
  drain(self);
}

// What the lead orders goes to the others at once, and is done here after the handler at work.
void give_order(Watch& watch, const Note& order) {
  const Placement& placement = watch.shared->placement;
  for (std::uint32_t process = 0; process < placement.processes(); ++process)
    if (process != placement.here()) watch.shared->options.bridge->send(process, order);
  watch.orders.push_back(order);
}

void spawn_shell(Self self, std::size_t node, std::unique_ptr<Actor> core) {
  Watch& watch = self->state;
  watch.shared->gauges[node].waiting = 0;
  watch.causes[node].clear();
  // Lazily started CAF actors take their arguments by value; the box lets a unique_ptr through.
  auto box = std::make_shared<std::unique_ptr<Actor>>(std::move(core));
  watch.shells[node] =
      self->spawn(shell_actor, watch.shared, node, box, caf::actor_cast<caf::actor>(self));
  self->monitor(watch.shells[node]);
}

void conclude(Self self, Result<RunReport> result) {
  Watch& watch = self->state;
  if (result) result.value().wall = Clock::now() - watch.shared->start;
  watch.shared->done(std::move(result));
  self->quit();
}

// Every actor of this process has ended.
void tell_ended(Self self) {
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

void end_run(Self self, const EndRun& end) {
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

void fail(Self self, Error error) {
  Watch& watch = self->state;
  if (watch.lead || !watch.shared->placement.leads())
    return tell_lead(self, RunFailed{std::move(error)});
  end_run(self, EndRun{.failure = std::move(error)});
}

// Runs what may throw (a factory, a callback of the user's): the run fails with it, and ends.
template <class F>
void attempt(Self self, F&& work) {
  try {
    work();
  } catch (const Error& error) {
    fail(self, error);
  } catch (const std::exception& error) {
    fail(self, Error(ErrorCode::actor_failed, error.what()));
  }
}

void commit(Self self, const Commit& commit) {
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
void make_life(Self self, std::size_t node, const Replacement& order) {
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

void report_if_prepared(Self self) {
  Watch& watch = self->state;
  if (!watch.preparing) return;
  const std::uint32_t generation = watch.preparing->generation;
  if (watch.flushed[generation] + 1 < watch.shared->placement.processes()) return;
  watch.flushed.erase(generation);
  watch.preparing.reset();
  tell_lead(self, PhaseDone{ReplacementPhase::prepare, generation});
}

void prepare(Self self, const Replacement& order) {
  Watch& watch = self->state;
  for (const std::uint32_t node : order.nodes) {
    const std::string cause = watch.causes.at(node);
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
void rewire(Self self, const Replacement& order) {
  Watch& watch = self->state;
  for (std::size_t other = 0; other < watch.shells.size(); ++other) {
    if (!watch.shells[other] || std::ranges::find(order.nodes, other) != order.nodes.end())
      continue;
    for (const std::uint32_t node : order.nodes)
      self->send(watch.shells[other], Replaced{node, watch.shared->directory.get(node)});
  }
  tell_lead(self, PhaseDone{ReplacementPhase::rewire, order.generation});
}

void start(Self self, const Replacement& order) {
  Watch& watch = self->state;
  const auto peers = std::make_shared<const std::vector<Peer>>(watch.shared->directory.all());
  for (const std::uint32_t node : order.nodes) {
    if (!watch.shells[node]) continue;
    self->send(watch.shells[node], Wire{peers, order.generation});
    if (order.newest) self->send(watch.shells[node], *order.newest);
  }
  tell_lead(self, PhaseDone{ReplacementPhase::start, order.generation});
}

void obey(Self self, const Note& order) {
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

// Where the lead is: lets it hear, and does what it orders, until there is nothing of either.
void drain(Self self) {
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

void on_death(Self self, std::size_t node) {
  Watch& watch = self->state;
  watch.shells[node] = nullptr;
  if (watch.stopping) {
    // It died instead of answering Stop: nothing more comes from it.
    if (--watch.awaited == 0) tell_ended(self);
    return;
  }
  const std::string cause =
      watch.causes[node].empty() ? "it ended without a word" : watch.causes[node];
  tell_lead(self, ActorDied{static_cast<std::uint32_t>(node), watch.generations[node], cause, {}});
}

void on_failure(Self self, const FailureNote& note) {
  Watch& watch = self->state;
  if (note.generation != watch.generations[note.node]) return;  // of a life that was replaced
  watch.causes[note.node] = note.cause;
  if (!note.lasting) return;
  // Not to be replaced; where Stop is on its way, its end is still waited for.
  if (!watch.stopping) watch.shells[note.node] = nullptr;
  tell_lead(self, ActorDied{static_cast<std::uint32_t>(note.node), note.generation, note.cause,
                            note.lasting});
}

void on_vote(Self self, const VoteNote& note) {
  Watch& watch = self->state;
  if (note.generation != watch.generations[note.node] || watch.stopping) return;
  watch.ballots[note.node].emplace(note.step, note.state);
  tell_lead(self, VoteCast{static_cast<std::uint32_t>(note.node), note.generation, note.step});
}

void on_event(Self self, const EventNote& note) {
  Watch& watch = self->state;
  if (watch.shared->options.on_event)
    for (const std::any& event : note.effects.events) watch.shared->options.on_event(event);
  if (note.effects.accepts_snapshot || note.effects.finished)
    tell_lead(self, ActorNews{static_cast<std::uint32_t>(note.node), note.effects.accepts_snapshot,
                              note.effects.finished});
}

void on_remote(Self self, const RemoteNote& remote) {
  Watch& watch = self->state;
  if (const auto* flushed = std::get_if<Flushed>(&remote.note)) {
    ++watch.flushed[flushed->generation];
    report_if_prepared(self);
  } else if (watch.lead) {
    watch.heard.emplace_back(remote.from, remote.note);
    drain(self);
  } else if (remote.from == 0) {
    obey(self, remote.note);
  }
}

void on_lost(Self self, const LostNote& lost) {
  Watch& watch = self->state;
  if (watch.lead) {
    watch.lead->lost(lost.process, lost.reason);
    return drain(self);
  }
  if (lost.process != 0) return fail(self, lost.reason);
  end_run(self, EndRun{.failure = lost.reason});  // nobody is left to decide
}

void spawn_first_life(Self self, std::size_t node) {
  Watch& watch = self->state;
  if (!is_here(watch, node)) return;
  auto core = watch.shared->graph.make_actor(node);
  core->begin_run();
  core->restore(nullptr, watch.shared->options.steps.first);
  spawn_shell(self, node, std::move(core));
  watch.shared->directory.set(node, {watch.shells[node], 0});
}

void begin(Self self) {
  Watch& watch = self->state;
  const Graph& graph = watch.shared->graph;
  const RunOptions& options = watch.shared->options;
  const std::size_t nodes = graph.nodes().size();
  watch.begun = std::chrono::duration_cast<std::chrono::nanoseconds>(
                    std::chrono::system_clock::now().time_since_epoch())
                    .count();
  watch.shells.resize(nodes);
  watch.generations.resize(nodes);
  watch.causes.resize(nodes);
  watch.ballots.resize(nodes);
  watch.committed.resize(nodes);
  watch.reports.resize(nodes);
  if (watch.shared->placement.leads())
    watch.lead = std::make_unique<Lead>(graph, watch.shared->placement, options, watch.begun,
                                        [&watch](const Note& order) { give_order(watch, order); });
  // Heard from now on, also when this process cannot begin: the others wait for its word.
  const auto open = [&] {
    if (options.bridge)
      options.bridge->open(make_listener(watch.shared, caf::actor_cast<caf::actor>(self)));
  };
  try {
    for (std::size_t node = 0; node < nodes; ++node) spawn_first_life(self, node);
  } catch (...) {
    open();
    throw;
  }
  open();
  const auto peers = std::make_shared<const std::vector<Peer>>(watch.shared->directory.all());
  for (const auto& shell : watch.shells)
    if (shell) self->send(shell, Wire{peers, 0});
}

}  // namespace

caf::behavior watch_actor(Self self, std::shared_ptr<Shared> shared) {
  self->state.shared = std::move(shared);
  self->set_down_handler([self](const caf::down_msg& down) {
    auto& shells = self->state.shells;
    for (std::size_t node = 0; node < shells.size(); ++node)
      if (shells[node] && shells[node].address() == down.source) return on_death(self, node);
  });
  self->send(self, Tick{});
  return {
      [self](Tick) { attempt(self, [&] { begin(self); }); },
      [self](const VoteNote& note) { attempt(self, [&] { on_vote(self, note); }); },
      [self](const FailureNote& note) { on_failure(self, note); },
      [self](const EventNote& note) { attempt(self, [&] { on_event(self, note); }); },
      [self](const RemoteNote& note) { attempt(self, [&] { on_remote(self, note); }); },
      [self](const LostNote& note) { on_lost(self, note); },
      [self](StopRequest) { tell_lead(self, StopWanted{}); },
      [self](StandStill) {
        fail(self,
             Error(ErrorCode::bad_graph, "the graph stands still: no actor has anything to do",
                   "more slots on its edges may help; firing_rules() of some actor may be wrong"));
      },
      [self](const LifeReport& life) {
        Watch& watch = self->state;
        watch.shells[life.node] = nullptr;  // its down message, perhaps here already, is no news
        watch.reports[life.node] = life.report;
        watch.trace.insert(watch.trace.end(), life.trace.begin(), life.trace.end());
        if (--watch.awaited == 0) tell_ended(self);
      },
  };
}

}  // namespace troupe::shell
