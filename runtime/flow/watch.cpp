// Hears the actors of this process, and the other processes.
#include "runtime/flow/watch.h"

#include <fmt/format.h>

#include "runtime/print.h"

namespace troupe::shell {
namespace {

/// Hands what other processes send to the actors it is for.
class Listener final : public BridgeListener {
 public:
  Listener(std::shared_ptr<Shared> shared, caf::actor watch)
      : shared_(std::move(shared)), watch_(std::move(watch)) {}

  void on_packet(std::uint32_t from, RemotePacket remote) override {
    const auto& edges = shared_->graph.edges();
    const Header& header = remote.packet.header;
    if (header.run != shared_->run_id) return;  // of another run: none of ours
    if (header.edge >= edges.size() || edges[header.edge].to != remote.node ||
        shared_->placement.of(edges[header.edge].from) != from)
      return refuse(from,
                    fmt::format("a message on edge {} for actor {}", header.edge, remote.node));
    hand_on(from, remote.node, remote.generation, Delivery{std::move(remote.packet)});
  }

  void on_credit(std::uint32_t from, RemoteCredit remote) override {
    const auto& edges = shared_->graph.edges();
    const Credit& credit = remote.credit;
    if (credit.edge >= edges.size() || edges[credit.edge].from != remote.node ||
        credit.slot >= edges[credit.edge].options.slots ||
        shared_->placement.of(edges[credit.edge].to) != from)
      return refuse(from, fmt::format("slot {} of edge {} for actor {}", credit.slot, credit.edge,
                                      remote.node));
    // For an older life of the actor: that port drops it.
    hand_on(from, remote.node, {}, CreditNote{credit});
  }

  void on_note(std::uint32_t from, Note note) override {
    caf::anon_send(watch_, RemoteNote{from, std::move(note)});
  }

  void on_lost(std::uint32_t process, const Error& reason) override {
    caf::anon_send(watch_, LostNote{process, reason});
  }

 private:
  template <class Message>
  void hand_on(std::uint32_t from, std::size_t node, std::optional<std::uint32_t> generation,
               Message message) {
    if (!shared_->placement.is_here(node))
      return refuse(from, fmt::format("a message for actor {}, which is not here", node));
    const Peer peer = shared_->directory.get(node);
    if (!peer.actor || (generation && *generation != peer.generation)) return;
    shared_->gauges[node].add();
    caf::anon_send(peer.actor, std::move(message));
  }

  void refuse(std::uint32_t from, const std::string& what) {
    on_lost(from, Error(ErrorCode::bad_message,
                        fmt::format("rank {} sent {}: no part of this run", from, what),
                        "start all processes from the same program and options"));
  }

  std::shared_ptr<Shared> shared_;
  caf::actor watch_;
};

void on_death(WatchSelf self, std::size_t node) {
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

void on_failure(WatchSelf self, const FailureNote& note) {
  Watch& watch = self->state;
  if (note.generation != watch.generations[note.node]) return;  // of a life that was replaced
  watch.causes[note.node] = note.cause;
  if (!note.lasting) return;
  // Not to be replaced; where Stop is on its way, its end is still waited for.
  if (!watch.stopping) watch.shells[note.node] = nullptr;
  tell_lead(self, ActorDied{static_cast<std::uint32_t>(note.node), note.generation, note.cause,
                            note.lasting});
}

void on_vote(WatchSelf self, const VoteNote& note) {
  Watch& watch = self->state;
  if (note.generation != watch.generations[note.node] || watch.stopping) return;
  watch.ballots[note.node].emplace(note.step, note.state);
  tell_lead(self, VoteCast{static_cast<std::uint32_t>(note.node), note.generation, note.step});
}

void on_event(WatchSelf self, const EventNote& note) {
  Watch& watch = self->state;
  if (watch.shared->options.on_event)
    for (const std::any& event : note.effects.events) watch.shared->options.on_event(event);
  if (note.effects.accepts_snapshot || note.effects.finished)
    tell_lead(self, ActorNews{static_cast<std::uint32_t>(note.node), note.effects.accepts_snapshot,
                              note.effects.finished});
}

void on_remote(WatchSelf self, const RemoteNote& remote) {
  Watch& watch = self->state;
  if (const auto* flushed = std::get_if<Flushed>(&remote.note)) {
    ++watch.flushed[flushed->generation];
    report_if_prepared(self);
  } else if (watch.lead) {
    watch.heard.emplace_back(remote.from, remote.note);
    let_lead_decide(self);
  } else if (remote.from == 0) {
    obey(self, remote.note);
  }
}

void on_lost(WatchSelf self, const LostNote& lost) {
  Watch& watch = self->state;
  if (watch.lead) {
    watch.lead->lost(lost.process, lost.reason);
    return let_lead_decide(self);
  }
  if (lost.process != 0) return fail(self, lost.reason);
  end_run(self, EndRun{.failure = lost.reason});  // nobody is left to decide
}

void spawn_first_life(WatchSelf self, std::size_t node) {
  Watch& watch = self->state;
  if (!watch.shared->placement.is_here(node)) return;
  auto core = watch.shared->graph.make_actor(node);
  core->begin_run();
  core->restore(nullptr, watch.shared->options.steps.first);
  spawn_shell(self, node, std::move(core));
  watch.shared->directory.set(node, {watch.shells[node], 0});
}

void begin(WatchSelf self) {
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
      options.bridge->open(
          std::make_shared<Listener>(watch.shared, caf::actor_cast<caf::actor>(self)));
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

caf::behavior watch_actor(WatchSelf self, std::shared_ptr<Shared> shared) {
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
      [self](LookAtVotes look) {
        if (Lead* lead = self->state.lead.get())
          if (const std::string told = lead->overdue_votes(look.idle); !told.empty())
            print_error("warning: {}\n", told);
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
        if (--watch.awaited == 0) tell_ended(self);
      },
  };
}

}  // namespace troupe::shell
