// Hears the actors of this process, and the other processes.
#include "runtime/flow/process_supervisor.h"

#include <fmt/format.h>

#include "runtime/print.h"

namespace troupe::flow {
namespace {

/// Hands what other processes send to the actors it is for.
class Listener final : public BridgeListener {
 public:
  Listener(std::shared_ptr<Shared> shared, caf::actor supervisor)
      : shared_(std::move(shared)), supervisor_(std::move(supervisor)) {}

  void on_packet(std::uint32_t from, RemotePacket remote) override {
    const auto& edges = shared_->graph.edges();
    const Header& header = remote.packet.header;
    if (header.run != shared_->run_id) return;  // of another run: none of ours
    if (header.edge >= edges.size() || edges[header.edge].to != remote.actor ||
        shared_->placement.of(edges[header.edge].from) != from)
      return refuse(from,
                    fmt::format("a message on edge {} for actor {}", header.edge, remote.actor));
    hand_on(from, remote.actor, remote.incarnation, Delivery{std::move(remote.packet)});
  }

  void on_credit(std::uint32_t from, RemoteCredit remote) override {
    const auto& edges = shared_->graph.edges();
    const Credit& credit = remote.credit;
    if (credit.edge >= edges.size() || edges[credit.edge].from != remote.actor ||
        credit.slot >= edges[credit.edge].options.slots ||
        shared_->placement.of(edges[credit.edge].to) != from)
      return refuse(from, fmt::format("slot {} of edge {} for actor {}", credit.slot, credit.edge,
                                      remote.actor));
    // For an older life of the actor: that port drops it.
    hand_on(from, remote.actor, {}, ReturnedCredit{credit});
  }

  void on_run_message(std::uint32_t from, RunMessage note) override {
    caf::anon_send(supervisor_, RemoteRunMessage{from, std::move(note)});
  }

  void on_lost(std::uint32_t process, const Error& reason) override {
    caf::anon_send(supervisor_, LostProcess{process, reason});
  }

 private:
  template <class Message>
  void hand_on(std::uint32_t from, std::size_t actor, std::optional<std::uint32_t> incarnation,
               Message message) {
    if (!shared_->placement.is_here(actor))
      return refuse(from, fmt::format("a message for actor {}, which is not here", actor));
    const ActorAddress peer = shared_->directory.get(actor);
    if (!peer.actor || (incarnation && *incarnation != peer.incarnation)) return;
    shared_->gauges[actor].add();
    caf::anon_send(peer.actor, std::move(message));
  }

  void refuse(std::uint32_t from, const std::string& what) {
    on_lost(from, Error(ErrorCode::bad_message,
                        fmt::format("rank {} sent {}: no part of this run", from, what),
                        "start all processes from the same program and options"));
  }

  std::shared_ptr<Shared> shared_;
  caf::actor supervisor_;
};

void on_death(SupervisorSelf self, std::size_t actor) {
  ProcessSupervisor& supervisor = self->state;
  supervisor.hosts[actor] = nullptr;
  if (supervisor.stopping) {
    // It died instead of answering Stop: nothing more comes from it.
    if (--supervisor.awaited == 0) tell_ended(self);
    return;
  }
  const std::string cause =
      supervisor.causes[actor].empty() ? "it ended without a word" : supervisor.causes[actor];
  tell_lead(
      self,
      ActorDied{static_cast<std::uint32_t>(actor), supervisor.incarnations[actor], cause, {}});
}

void on_failure(SupervisorSelf self, const FailureNote& note) {
  ProcessSupervisor& supervisor = self->state;
  if (note.incarnation != supervisor.incarnations[note.actor])
    return;  // of a life that was replaced
  supervisor.causes[note.actor] = note.cause;
  if (!note.lasting) return;
  // Not to be replaced; where Stop is on its way, its end is still waited for.
  if (!supervisor.stopping) supervisor.hosts[note.actor] = nullptr;
  tell_lead(self, ActorDied{static_cast<std::uint32_t>(note.actor), note.incarnation, note.cause,
                            note.lasting});
}

void on_vote(SupervisorSelf self, const VoteNote& note) {
  ProcessSupervisor& supervisor = self->state;
  if (note.incarnation != supervisor.incarnations[note.actor] || supervisor.stopping) return;
  supervisor.ballots[note.actor].emplace(note.step, note.state);
  tell_lead(self, Vote{static_cast<std::uint32_t>(note.actor), note.incarnation, note.step});
}

void on_event(SupervisorSelf self, const EventNote& note) {
  ProcessSupervisor& supervisor = self->state;
  if (supervisor.shared->options.on_event)
    for (const std::any& event : note.effects.events) supervisor.shared->options.on_event(event);
  if (note.effects.accepts_snapshot || note.effects.finished)
    tell_lead(self, ActorNews{static_cast<std::uint32_t>(note.actor), note.effects.accepts_snapshot,
                              note.effects.finished});
}

void on_remote(SupervisorSelf self, const RemoteRunMessage& remote) {
  ProcessSupervisor& supervisor = self->state;
  if (const auto* flushed = std::get_if<Flushed>(&remote.note)) {
    ++supervisor.flushed[flushed->incarnation];
    report_if_prepared(self);
  } else if (supervisor.lead) {
    supervisor.heard.emplace_back(remote.from, remote.note);
    let_lead_decide(self);
  } else if (remote.from == 0) {
    obey(self, remote.note);
  }
}

void on_lost(SupervisorSelf self, const LostProcess& lost) {
  ProcessSupervisor& supervisor = self->state;
  if (supervisor.lead) {
    supervisor.lead->lost(lost.process, lost.reason);
    return let_lead_decide(self);
  }
  if (lost.process != 0) return fail(self, lost.reason);
  end_run(self, EndRun{.failure = lost.reason});  // nobody is left to decide
}

void spawn_first_life(SupervisorSelf self, std::size_t actor) {
  ProcessSupervisor& supervisor = self->state;
  if (!supervisor.shared->placement.is_here(actor)) return;
  auto core = supervisor.shared->graph.make_actor(actor);
  core->begin_run();
  core->restore(nullptr, supervisor.shared->options.steps.first);
  spawn_host(self, actor, std::move(core));
  supervisor.shared->directory.set(actor, {supervisor.hosts[actor], 0});
}

void begin(SupervisorSelf self) {
  ProcessSupervisor& supervisor = self->state;
  const Graph& graph = supervisor.shared->graph;
  const RunOptions& options = supervisor.shared->options;
  const std::size_t actors = graph.actors().size();
  supervisor.begun = std::chrono::duration_cast<std::chrono::nanoseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
  supervisor.hosts.resize(actors);
  supervisor.incarnations.resize(actors);
  supervisor.causes.resize(actors);
  supervisor.ballots.resize(actors);
  supervisor.committed.resize(actors);
  supervisor.reports.resize(actors);
  if (supervisor.shared->placement.leads())
    supervisor.lead = std::make_unique<RunLeader>(
        graph, supervisor.shared->placement, options, supervisor.begun,
        [&supervisor](const RunMessage& order) { give_order(supervisor, order); });
  // Heard from now on, also when this process cannot begin: the others wait for its word.
  const auto open = [&] {
    if (options.bridge)
      options.bridge->open(
          std::make_shared<Listener>(supervisor.shared, caf::actor_cast<caf::actor>(self)));
  };
  try {
    for (std::size_t actor = 0; actor < actors; ++actor) spawn_first_life(self, actor);
  } catch (...) {
    open();
    throw;
  }
  open();
  const auto peers =
      std::make_shared<const std::vector<ActorAddress>>(supervisor.shared->directory.all());
  for (const auto& host : supervisor.hosts)
    if (host) self->send(host, Wire{peers, 0});
}

}  // namespace

caf::behavior process_supervisor(SupervisorSelf self, std::shared_ptr<Shared> shared) {
  self->state.shared = std::move(shared);
  self->set_down_handler([self](const caf::down_msg& down) {
    auto& hosts = self->state.hosts;
    for (std::size_t actor = 0; actor < hosts.size(); ++actor)
      if (hosts[actor] && hosts[actor].address() == down.source) return on_death(self, actor);
  });
  self->send(self, Resume{});
  return {
      [self](Resume) { attempt(self, [&] { begin(self); }); },
      [self](const VoteNote& note) { attempt(self, [&] { on_vote(self, note); }); },
      [self](const FailureNote& note) { on_failure(self, note); },
      [self](const EventNote& note) { attempt(self, [&] { on_event(self, note); }); },
      [self](const RemoteRunMessage& note) { attempt(self, [&] { on_remote(self, note); }); },
      [self](const LostProcess& note) { on_lost(self, note); },
      [self](StopRequested) { tell_lead(self, StopWanted{}); },
      [self](CheckProgress look) {
        if (RunLeader* lead = self->state.lead.get())
          if (const std::string told = lead->overdue_votes(look.idle); !told.empty())
            print_error("warning: {}\n", told);
      },
      [self](Deadlocked) {
        fail(self,
             Error(ErrorCode::bad_graph, "the graph stands still: no actor has anything to do",
                   "more slots on its edges may help; firing_rules() of some actor may be wrong"));
      },
      [self](const FinalReport& life) {
        ProcessSupervisor& supervisor = self->state;
        supervisor.hosts[life.actor] =
            nullptr;  // its down message, perhaps here already, is no news
        supervisor.reports[life.actor] = life.report;
        supervisor.trace.insert(supervisor.trace.end(), life.trace.begin(), life.trace.end());
        if (--supervisor.awaited == 0) tell_ended(self);
      },
  };
}

}  // namespace troupe::flow
