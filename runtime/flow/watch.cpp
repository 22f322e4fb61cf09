#include <fmt/format.h>

#include "runtime/flow/shell.h"

namespace troupe::shell {
namespace {

using Self = CafActor<Watch>*;

void spawn_shell(Self self, std::size_t node, std::unique_ptr<Actor> core) {
  Watch& watch = self->state;
  watch.shared->gauges[node].waiting = 0;
  watch.causes[node].clear();
  // Lazily started CAF actors take their arguments by value; the box lets a unique_ptr through.
  auto box = std::make_shared<std::unique_ptr<Actor>>(std::move(core));
  watch.shells[node] =
      self->spawn(shell_actor, watch.shared, node, box, caf::actor_cast<caf::actor>(self));
  watch.generations[node] = watch.generation;
  self->monitor(watch.shells[node]);
}

void stop_all(Self self) {
  Watch& watch = self->state;
  if (watch.stopping) return;
  watch.stopping = true;
  for (const auto& shell : watch.shells) {
    if (!shell) continue;  // dead, and not replaced any more
    ++watch.awaited;
    self->send(shell, Stop{});
  }
}

void conclude(Self self) {
  Watch& watch = self->state;
  if (watch.failure) {
    watch.shared->done(std::move(*watch.failure));
  } else {
    RunReport report;
    for (std::size_t i = 0; i < watch.reports.size(); ++i) {
      watch.reports[i].restarts = watch.core->restarts(i);
      watch.reports[i].peak_mailbox = watch.shared->gauges[i].peak;
    }
    report.actors = std::move(watch.reports);
    report.trace = std::move(watch.trace);
    report.steps = watch.core->steps();
    report.generation = watch.generation;
    report.stopped = watch.core->stopped();
    report.wall = Clock::now() - watch.shared->start;
    watch.shared->done(std::move(report));
  }
  self->quit();
}

void fail(Self self, Error error) {
  Watch& watch = self->state;
  if (!watch.failure) watch.failure = std::move(error);
  const bool begun = watch.stopping;
  stop_all(self);
  if (!begun && watch.awaited == 0) conclude(self);
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

// Gives each dead actor a new life: state of its last commit, messages from its neighbours' slots.
void replace(Self self, const std::vector<std::size_t>& nodes) {
  Watch& watch = self->state;
  ++watch.generation;
  for (std::size_t node : nodes) {
    if (watch.shells[node]) {
      self->demonitor(watch.shells[node]);
      caf::anon_send_exit(watch.shells[node], caf::exit_reason::kill);
      watch.shells[node] = nullptr;  // it answers no Stop, should its successor not come to be
    }
    auto core = watch.shared->graph.make_actor(node);
    core->restore(watch.core->committed(node), watch.core->steps());
    spawn_shell(self, node, std::move(core));
  }
  const auto peers = std::make_shared<const std::vector<caf::actor>>(watch.shells);
  // First the others, or one of them might return a credit to the dead: it would be lost.
  for (std::size_t other = 0; other < watch.shells.size(); ++other) {
    if (std::ranges::find(nodes, other) != nodes.end()) continue;
    for (std::size_t node : nodes)
      self->send(watch.shells[other], Replaced{node, watch.shells[node], watch.generation});
  }
  for (std::size_t node : nodes) {
    self->send(watch.shells[node], Wire{peers, watch.generation});
    if (const auto& commit = watch.core->newest_commit()) self->send(watch.shells[node], *commit);
  }
}

void on_death(Self self, std::size_t node) {
  Watch& watch = self->state;
  watch.shells[node] = nullptr;
  if (watch.stopping) {
    // It died instead of answering Stop: nothing more comes from it.
    if (--watch.awaited == 0) conclude(self);
    return;
  }
  const std::string cause =
      watch.causes[node].empty() ? "it ended without a word" : watch.causes[node];
  std::vector<std::size_t> nodes;
  try {
    nodes = watch.core->died(node, cause, Clock::now());
    replace(self, nodes);
  } catch (const Error& error) {
    return fail(self, error);
  } catch (const std::exception& error) {
    return fail(self,
                Error(ErrorCode::actor_failed,
                      fmt::format("{} failed: {}; its replacement could not be made: {}",
                                  watch.shared->graph.nodes()[node].name, cause, error.what())));
  }
  if (!watch.shared->options.on_failure) return;
  FailureReport report{
      watch.shared->graph.nodes()[node].name, cause, {}, watch.generation, watch.core->steps()};
  report.replaced.reserve(nodes.size());
  for (std::size_t n : nodes) report.replaced.push_back(watch.shared->graph.nodes()[n].name);
  attempt(self, [&] { watch.shared->options.on_failure(report); });
}

void on_vote(Self self, const VoteNote& note) {
  Watch& watch = self->state;
  if (note.generation != watch.generations[note.node] || watch.stopping) return;
  const auto commit = watch.core->vote(note.node, note.step, note.state);
  if (!commit) return;
  for (const auto& shell : watch.shells) self->send(shell, *commit);
  if (watch.core->done()) stop_all(self);
}

void on_event(Self self, const EventNote& note) {
  Watch& watch = self->state;
  if (note.effects.accepts_snapshot) watch.core->accept_snapshots(*note.effects.accepts_snapshot);
  if (watch.shared->options.on_event)
    for (const std::any& event : note.effects.events) watch.shared->options.on_event(event);
  if (note.effects.finished) watch.core->finished(note.node);
  if (watch.core->done()) stop_all(self);
}

void begin(Self self) {
  Watch& watch = self->state;
  const auto& nodes = watch.shared->graph.nodes();
  std::vector<Supervisor::Member> members;
  members.reserve(nodes.size());
  for (const auto& node : nodes)
    members.push_back({node.name,
                       node.prototype->votes(),
                       node.prototype->holds_run_open(),
                       node.prototype->needs_whole_step(),
                       {}});
  for (const auto& edge : watch.shared->graph.edges()) {
    members[edge.from].neighbours.push_back(edge.to);
    members[edge.to].neighbours.push_back(edge.from);
  }
  watch.core = std::make_unique<Supervisor>(std::move(members), watch.shared->options.steps,
                                            watch.shared->options.restarts);
  watch.shells.resize(nodes.size());
  watch.generations.resize(nodes.size());
  watch.causes.resize(nodes.size());
  watch.reports.resize(nodes.size());
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    auto core = watch.shared->graph.make_actor(node);
    core->begin_run();
    core->restore(nullptr, watch.shared->options.steps.first);
    spawn_shell(self, node, std::move(core));
  }
  const auto peers = std::make_shared<const std::vector<caf::actor>>(watch.shells);
  for (const auto& shell : watch.shells) self->send(shell, Wire{peers, 0});
}

}  // namespace

caf::behavior supervisor_actor(Self self, std::shared_ptr<Shared> shared) {
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
      [self](const FailureNote& note) {
        Watch& watch = self->state;
        if (note.generation != watch.generations[note.node]) return;  // of a life that was replaced
        watch.causes[note.node] = note.cause;
        if (!note.lasting) return;
        // Not to be replaced; where Stop is on its way, its end is still waited for.
        if (!watch.stopping) watch.shells[note.node] = nullptr;
        fail(self, *note.lasting);
      },
      [self](const EventNote& note) { attempt(self, [&] { on_event(self, note); }); },
      [self](StopRequest) {
        Watch& watch = self->state;
        if (!watch.core) return;  // it failed to begin
        watch.core->request_stop();
        if (!watch.core->has_voters()) stop_all(self);  // there is no commit to wait for
      },
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
        if (--watch.awaited == 0) conclude(self);
      },
  };
}

}  // namespace troupe::shell
