#include "runtime/flow/actor_host.h"

#include <fmt/format.h>

#include "runtime/flow/at_work.h"
#include "runtime/flow/faults.h"

namespace troupe::flow {
namespace {

using Self = CafActor<HostedActor>*;

void account(HostedActor& life, Clock::time_point now) {
  auto& time = life.report.time;
  const auto passed = now - life.since;
  life.since = now;
  switch (life.waiting) {
    case Waiting::input:
      time.no_input += passed;
      break;
    case Waiting::credit:
      time.no_credit += passed;
      break;
    case Waiting::other:
      time.other += passed;
      break;
  }
}

void send_packet(Self self, std::size_t to, Packet packet) {
  HostedActor& life = self->state;
  const Placement& placement = life.shared->placement;
  if (!placement.is_here(to)) {
    life.shared->options.bridge->send(
        placement.of(to), RemotePacket{static_cast<std::uint32_t>(to), life.peers[to].incarnation,
                                       std::move(packet)});
    return;
  }
  life.shared->gauges[to].add();
  self->send(life.peers[to].actor, Delivery{std::move(packet)});
}

void send_credit(Self self, const Credit& credit) {
  HostedActor& life = self->state;
  const Placement& placement = life.shared->placement;
  const std::size_t to = life.shared->graph.edges()[credit.edge].from;
  if (!placement.is_here(to)) {
    life.shared->options.bridge->send(placement.of(to),
                                      RemoteCredit{static_cast<std::uint32_t>(to), credit});
    return;
  }
  life.shared->gauges[to].add();
  self->send(life.peers[to].actor, ReturnedCredit{credit});
}

// Lets go what an action left behind: packets, then credits, then news for the supervisor. True if
// any packet is for an actor of this process that others wait for elsewhere.
bool dispatch(Self self) {
  HostedActor& life = self->state;
  RuntimeAccess::Effects effects = RuntimeAccess::take_effects(*life.core);
  const auto& edges = life.shared->graph.edges();
  bool urgent = false;
  for (Packet& packet : effects.packets) {
    const std::size_t to = edges[packet.header.edge].to;
    urgent = urgent || life.shared->sends_away[to];
    send_packet(self, to, std::move(packet));
  }
  for (const Credit& credit : effects.credits) send_credit(self, credit);
  if (effects.vote)
    self->send(life.supervisor, VoteNote{life.actor, life.incarnation, effects.vote->first,
                                         std::move(effects.vote->second)});
  if (!effects.events.empty() || effects.accepts_snapshot || effects.finished) {
    effects.packets.clear();
    effects.credits.clear();
    effects.vote.reset();
    self->send(life.supervisor, EventNote{life.actor, std::move(effects)});
  }
  return urgent;
}

bool fits(const FaultOptions& fault, const std::string& actor, const ActionLabel& label) {
  return is_meant(fault.actor, actor) && label.key.purpose == fault.purpose &&
         label.key.step == fault.step && label.key.micro_batch == fault.micro_batch &&
         (fault.action.empty() || fault.action == label.name);
}

// Throws where an option asks for it: after the work, before anything of it has left.
void inject_fault(const HostedActor& life, const ActionLabel& label) {
  const auto& faults = life.shared->options.faults;
  for (std::size_t i = 0; i < faults.size(); ++i)
    if (fits(faults[i], life.report.name, label) && !life.shared->faults_fired[i].exchange(true))
      throw Error(ErrorCode::actor_failed,
                  fmt::format("injected fault in {} at step {}, micro-batch {} ({})",
                              life.report.name, label.key.step, label.key.micro_batch, label.name));
}

// True if it took long and others here should have the thread now: what they make of it has to
// reach another process while this actor goes on. Otherwise an actor does better to go on at once,
// with its weights in the cache. Where the order is to be the same each time, no clock is asked.
bool act(Self self) {
  constexpr auto long_time = std::chrono::microseconds(50);
  HostedActor& life = self->state;
  Shared& shared = *life.shared;
  const AtWork at_work(shared.at_work, std::max(1, shared.options.threads),
                       shared.options.bridge.get());
  const auto begin = Clock::now();
  account(life, begin);
  const ActionLabel label = life.core->act();
  inject_fault(life, label);
  const auto end = Clock::now();
  life.report.time.compute += end - begin;
  life.since = end;
  ++life.report.actions;
  if (life.shared->options.trace)
    life.trace.push_back({life.actor, label, begin - life.shared->start, end - life.shared->start});
  const bool urgent = dispatch(self);
  return urgent &&
         (end - begin > long_time || life.shared->options.scheduling == Scheduling::deterministic);
}

// Acts while there is something to do. Between two actions it lets messages in, which may bring
// something more urgent, and others go on.
void pump(Self self) {
  HostedActor& life = self->state;
  if (!life.started) return;  // messages may come before Wire says to whom to answer
  dispatch(self);
  if (life.yielding) return;
  while (life.core->ready()) {
    const bool others_first = act(self);
    if (others_first && life.core->ready()) {
      life.yielding = true;
      self->send(life.shared->yielder, Resume{});
    } else if (!self->mailbox().empty()) {
      life.yielding = true;
      self->send(self, Resume{});
    }
    if (life.yielding) break;
  }
  account(life, Clock::now());
  life.waiting = life.yielding ? Waiting::other : life.core->waiting();
}

// Runs a handler; turns what it throws into one failure message and ends this life.
template <class F>
void guard(Self self, F&& handler) {
  std::string cause;
  std::optional<Error> lasting;
  try {
    handler();
    return;
  } catch (const Error& e) {
    cause = e.what();
    if (is_lasting(e.code()))
      lasting.emplace(e.code(), self->state.report.name + ": " + e.message(), e.remedy());
  } catch (const std::exception& e) {
    cause = e.what();
  } catch (...) {
    cause = "an exception that is no std::exception";
  }
  HostedActor& life = self->state;
  self->send(life.supervisor,
             FailureNote{life.actor, life.incarnation, std::move(cause), std::move(lasting)});
  self->quit(caf::sec::runtime_error);
}

// What a life does about each message, before it goes on.

void delivered(Self self, const Delivery& delivery) {
  HostedActor& life = self->state;
  life.shared->gauges[life.actor].remove();
  const auto& edge = life.shared->graph.edges()[delivery.packet.header.edge];
  RuntimeAccess::deliver(*life.core->inputs()[edge.input], delivery.packet);
}

void credited(Self self, const ReturnedCredit& note) {
  HostedActor& life = self->state;
  life.shared->gauges[life.actor].remove();
  const auto& edge = life.shared->graph.edges()[note.credit.edge];
  RuntimeAccess::credit(*life.core->outputs()[edge.output], note.credit);
}

void resumed(Self self, const Resume&) { self->state.yielding = false; }

void committed(Self self, const Commit& commit) { self->state.core->on_commit(commit); }

void posted(Self self, const PostedWork& note) { note.work(*self->state.core); }

void wired(Self self, const Wire& wire) {
  HostedActor& life = self->state;
  life.peers = *wire.peers;
  life.incarnation = wire.incarnation;
  for (OutputPort* port : life.core->outputs())
    RuntimeAccess::begin_incarnation(*port, life.shared->run_id, wire.incarnation);
  life.started = true;
}

void replaced(Self self, const Replaced& note) {
  HostedActor& life = self->state;
  life.peers[note.actor] = note.peer;
  const auto& edges = life.shared->graph.edges();
  for (std::uint32_t id = 0; id < edges.size(); ++id) {
    if (edges[id].from == note.actor && edges[id].to == life.actor)
      RuntimeAccess::sender_replaced(*life.core->inputs()[edges[id].input], id,
                                     note.peer.incarnation);
    if (edges[id].to != note.actor || edges[id].from != life.actor) continue;
    for (Packet& packet : RuntimeAccess::unreleased(*life.core->outputs()[edges[id].output], id))
      send_packet(self, note.actor, std::move(packet));
  }
}

template <class Message>
auto handler(Self self, void (*handle)(Self, const Message&)) {
  return [self, handle](const Message& message) {
    std::atomic<bool>& acting = self->state.shared->gauges[self->state.actor].acting;
    acting.store(true, std::memory_order_relaxed);
    guard(self, [&] {
      handle(self, message);
      pump(self);
    });
    acting.store(false, std::memory_order_relaxed);
  };
}

void stop(Self self) {
  HostedActor& life = self->state;
  account(life, Clock::now());
  for (const InputPort* port : life.core->inputs())
    life.report.dropped += RuntimeAccess::dropped(*port);
  self->send(life.supervisor,
             FinalReport{life.actor, std::move(life.report), std::move(life.trace)});
  self->quit();
}

std::size_t mailbox_bound(const Graph& graph, std::size_t actor) {
  std::size_t slots = 0;
  for (const auto& edge : graph.edges())
    if (edge.from == actor || edge.to == actor) slots += edge.options.slots;
  return slots;
}

}  // namespace

caf::behavior yield_actor(CafBase* self) {
  return {[self](Resume tick) {
    self->send(caf::actor_cast<caf::actor>(self->current_sender()), tick);
  }};
}

caf::behavior host_actor(Self self, std::shared_ptr<Shared> shared, std::size_t actor,
                         const std::shared_ptr<std::unique_ptr<Actor>>& core,
                         caf::actor supervisor) {
  HostedActor& life = self->state;
  life.shared = std::move(shared);
  life.actor = actor;
  life.core = std::move(*core);
  life.supervisor = std::move(supervisor);
  life.report.name = life.shared->graph.actors()[actor].name;
  life.report.mailbox_bound = mailbox_bound(life.shared->graph, actor);
  life.since = Clock::now();
  RuntimeAccess::set_post(*life.core, [weak = caf::actor_addr(self->address())](Post work) {
    if (auto strong = caf::actor_cast<caf::actor>(weak))
      caf::anon_send(strong, PostedWork{std::move(work)});
  });
  return {
      handler(self, delivered), handler(self, credited),      handler(self, resumed),
      handler(self, committed), handler(self, posted),        handler(self, wired),
      handler(self, replaced),  [self](Stop) { stop(self); },
  };
}

}  // namespace troupe::flow
