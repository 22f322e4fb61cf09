#include "runtime/flow/actor_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/device/device_stream.h"
#include "runtime/flow/faults.h"
#include "runtime/transport/delivery_deferral.h"

namespace troupe::flow {
namespace {

void account_waiting(HostedActor& hosted, Clock::time_point now) {
  if (hosted.timed.empty()) return hosted.time.wait_idle_until(now, hosted.waiting);
  hosted.time.wait_until(now, hosted.waiting);
}

/// Accounts for what the device has done. In a trace, its times take the place of those in which
/// the host gave the work.
void account_device(HostedActor& hosted) {
  account_waiting(hosted, Clock::now());
  for (; !hosted.timed.empty(); hosted.timed.pop_front()) {
    const TimedAction& first = hosted.timed.front();
    const auto span = first.range->span();
    if (!span) return;
    hosted.time.add(*span);
    if (!first.event) continue;
    TraceEvent& event = hosted.trace[*first.event];
    event.begin = span->begin - hosted.run->start;
    event.end = span->end - hosted.run->start;
  }
}

/// Sends to an actor of this process or, through the bridge, of another.
template <class Message>
void send_to(ActorHost* self, std::size_t actor, Message message) {
  HostedActor& hosted = self->state;
  RunState& run = *hosted.run;
  if (!run.placement.is_here(actor))
    return run.options.bridge->send(run.placement.of(actor), std::move(message));
  run.gauges[actor].add();
  self->send(hosted.addresses[actor].actor, std::move(message));
}

/// Whether the actor takes packets before their fences have passed: its stream waits for those of
/// this one.
bool takes_fences(const HostedActor& hosted, std::size_t actor) {
  const Backend* backend = hosted.run->stream_backends[actor];
  return backend && backend == hosted.run->stream_backends[hosted.index];
}

void send_packet(ActorHost* self, std::size_t to, Packet&& packet) {
  packet.header.receiver = self->state.addresses[to].incarnation;
  if (packet.fence && !takes_fences(self->state, to)) packet.fence.reset();  // it has passed
  send_to(self, to, std::move(packet));
}

/// Sends packets, then credits, then reports to the supervisor. Returns whether a packet went to an
/// actor of this process that sends to another process.
bool dispatch(ActorHost* self, RuntimeAccess::Effects& effects, const WorkPtr& fence = nullptr) {
  HostedActor& hosted = self->state;
  RunState& run = *hosted.run;
  bool feeds_sender_away = false;
  for (Packet& packet : effects.packets) {
    const std::size_t to = run.graph.edges()[packet.header.edge].to;
    run.sent[packet.header.edge].fetch_add(1, std::memory_order_relaxed);
    feeds_sender_away = feeds_sender_away || run.sends_away[to];
    send_packet(self, to, std::move(packet));
  }
  for (const Credit& credit : effects.credits)
    send_to(self, run.graph.edges()[credit.edge].from, credit);
  if (effects.vote) {
    effects.vote->actor = hosted.index;
    effects.vote->incarnation = hosted.incarnation;
    self->send(hosted.supervisor, Voted{std::move(*effects.vote), fence});
  }
  if (!effects.events.empty())
    self->send(hosted.supervisor, EmittedEvents{std::move(effects.events)});
  if (effects.status) {
    effects.status->actor = hosted.index;
    self->send(hosted.supervisor, *effects.status);
  }
  effects.clear();
  return feeds_sender_away;
}

void tell_when_passed(ActorHost* self, const WorkPtr& fence) {
  fence->then([weak = caf::actor_addr(self->address())](const Status&) {
    if (auto strong = caf::actor_cast<caf::actor>(weak)) caf::anon_send(strong, FencePassed{});
  });
}

/// Whether a vote may leave before these effects: messages that have not left are lost with the
/// actor, so no commit that forgets what led to them goes first. Neighbours send again what credits
/// would have released, and the next incarnation releases it.
bool may_be_overtaken(const RuntimeAccess::Effects& effects) {
  return effects.packets.empty() && effects.events.empty() && !effects.status && !effects.vote;
}

/// Takes out the vote if errors of the stream end the run, unless it must follow effects that wait.
std::optional<Vote> take_vote(const HostedActor& hosted, RuntimeAccess::Effects& behind) {
  std::optional<Vote> vote = std::exchange(behind.vote, std::nullopt);
  const auto overtaken = [](const HeldBack& one) { return may_be_overtaken(one.effects); };
  if (may_be_overtaken(behind) && std::ranges::all_of(hosted.held_back, overtaken)) return vote;
  behind.vote = std::move(vote);
  return std::nullopt;
}

/// Holds effects back until the fence has passed. If errors of the stream end the run, a fence
/// without effects only tells whether the work has failed: the last one, however late, for all.
void hold_back(ActorHost* self, DeviceStream& stream, const WorkPtr& fence,
               RuntimeAccess::Effects behind) {
  auto& held = self->state.held_back;
  if (stream.errors_end_run() && behind.empty()) {
    account_device(self->state);  // no FencePassed comes, which does it for others
    if (!held.empty() && held.back().effects.empty()) held.pop_back();
    held.push_back({fence, {}});
    return;
  }
  held.push_back({fence, std::move(behind)});
  tell_when_passed(self, fence);
}

/// The same for an actor with a stream: sends packets to actors that take their fence, and holds
/// back until it has passed what waits for it.
bool dispatch_behind(ActorHost* self, DeviceStream& stream, RuntimeAccess::Effects& effects) {
  HostedActor& hosted = self->state;
  const WorkPtr fence = stream.fence();
  RuntimeAccess::Effects at_once, behind = std::exchange(effects, {});
  for (Packet& packet : std::exchange(behind.packets, {})) {
    const auto& edge = hosted.run->graph.edges()[packet.header.edge];
    packet.fence = fence;
    RuntimeAccess::set_fence(*hosted.actor->outputs()[edge.output], packet.header, fence);
    (takes_fences(hosted, edge.to) ? at_once : behind).packets.push_back(std::move(packet));
  }
  if (stream.errors_end_run()) at_once.vote = take_vote(hosted, behind);
  hold_back(self, stream, fence, std::move(behind));
  return dispatch(self, at_once, fence);
}

/// Dispatches what the actor's functions have left behind. Returns as dispatch().
bool send_effects(ActorHost* self) {
  RuntimeAccess::Effects& effects = RuntimeAccess::effects(*self->state.actor);
  if (effects.empty()) return false;
  DeviceStream* stream = self->state.stream;
  return stream ? dispatch_behind(self, *stream, effects) : dispatch(self, effects);
}

bool matches(const FaultOptions& fault, const std::string& actor, const ActionLabel& label) {
  return is_meant(fault.actor, actor) && label.key.purpose == fault.purpose &&
         label.key.step == fault.step && label.key.micro_batch == fault.micro_batch &&
         (fault.action.empty() || fault.action == label.name);
}

/// Throws if an option injects a fault here: after the action, before its effects leave.
void inject_fault(const HostedActor& hosted, const ActionLabel& label) {
  const auto& faults = hosted.run->options.faults;
  for (std::size_t i = 0; i < faults.size(); ++i)
    if (matches(faults[i], hosted.report.name, label) &&
        !hosted.run->faults_fired[i].exchange(true))
      throw Error(
          ErrorCode::actor_failed,
          fmt::format("injected fault in {} at step {}, micro-batch {} ({})", hosted.report.name,
                      label.key.step, label.key.micro_batch, label.name));
}

/// Whether an actor yields its thread after an action, though it may be ready for the next one. A
/// consumer in this process may have to send on what a long action made to another process, which
/// waits for it: the consumer gets the thread first. Otherwise the actor keeps the thread, with its
/// weights in the cache. Deterministic scheduling asks no clock, so that its order is reproducible.
bool yields_thread(const RunState& run, bool feeds_sender_away, Clock::duration time) {
  constexpr auto long_time = std::chrono::microseconds(50);
  const bool is_long = time > long_time || run.options.scheduling == Scheduling::deterministic;
  return feeds_sender_away && is_long;
}

/// An action of an actor with a stream is a range of it.
class ActionRange {
 public:
  explicit ActionRange(const HostedActor& hosted) : stream_(hosted.stream) {
    if (stream_) stream_->begin_range(hosted.report.name);
  }
  ~ActionRange() { end(); }
  ActionRange(const ActionRange&) = delete;
  ActionRange& operator=(const ActionRange&) = delete;

  DeviceRangePtr end() {
    DeviceStream* stream = std::exchange(stream_, nullptr);
    return stream ? stream->end_range() : nullptr;
  }

 private:
  DeviceStream* stream_;
};

/// Returns whether the actor is to yield its thread.
bool act(ActorHost* self) {
  HostedActor& hosted = self->state;
  RunState& run = *hosted.run;
  const DeliveryDeferral::Action action(run.options.deferral, run.options.threads);
  const auto begin = Clock::now();
  account_waiting(hosted, begin);
  ActionRange range(hosted);
  const ActionLabel label = hosted.actor->act();
  DeviceRangePtr on_device = range.end();
  inject_fault(hosted, label);
  const auto end = Clock::now();
  hosted.time.compute_until(end);
  ++hosted.report.actions;
  std::optional<std::size_t> event;
  if (run.options.trace) {
    event = hosted.trace.size();
    hosted.trace.push_back(
        {hosted.index, std::string(label.name), label.key, begin - run.start, end - run.start});
  }
  if (on_device) hosted.timed.push_back({std::move(on_device), event});
  return yields_thread(run, send_effects(self), end - begin);
}

void count_held(HostedActor& hosted) {
  RuntimeAccess::Held all;
  for (const InputPort* port : hosted.actor->inputs()) {
    const auto [count, step] = RuntimeAccess::held(*port);
    if (count > 0) all.step = all.count > 0 ? std::min(all.step, step) : step;
    all.count += count;
  }
  MailboxGauge& gauge = hosted.run->gauges[hosted.index];
  gauge.held.store(all.count, std::memory_order_relaxed);
  gauge.held_since.store(all.step, std::memory_order_relaxed);
  const auto has_effects = [](const HeldBack& one) { return !one.effects.empty(); };
  gauge.on_device.store(std::ranges::any_of(hosted.held_back, has_effects),
                        std::memory_order_relaxed);
}

/// Acts until nothing is to do, a message has arrived, which may bring more urgent work, or other
/// actors need the thread. In the latter cases a Resume continues.
void run_actions(ActorHost* self) {
  HostedActor& hosted = self->state;
  // A message may come before Start, which has the addresses.
  if (!hosted.started || hosted.stops) return;
  send_effects(self);  // of the handler that called this
  if (hosted.resumes) return;
  while (hosted.actor->ready() && !hosted.resumes) {
    if (act(self) && hosted.actor->ready()) {
      hosted.resumes = true;
      self->send(hosted.run->yielder, Resume{});
    } else if (!self->mailbox().empty()) {
      hosted.resumes = true;
      self->send(self, Resume{});
    }
  }
  account_waiting(hosted, Clock::now());
  hosted.waiting = hosted.resumes ? Waiting::other : hosted.actor->waiting();
  count_held(hosted);
}

std::optional<std::uint32_t> oldest_step(const Actor& actor) {
  std::optional<std::uint32_t> oldest;
  for (const InputPort* port : actor.inputs())
    if (const auto step = RuntimeAccess::oldest_step(*port); step && (!oldest || *step < *oldest))
      oldest = step;
  return oldest;
}

/// Runs a handler. An exception ends this incarnation with a report to the supervisor.
template <class F>
void guard(ActorHost* self, F&& handler) {
  HostedActor& hosted = self->state;
  ActorFailed failure{.actor = hosted.index, .incarnation = hosted.incarnation};
  try {
    handler();
    return;
  } catch (const Error& e) {
    failure.cause = e.what();
    if (is_lasting(e.code()))
      failure.lasting.emplace(e.code(), hosted.report.name + ": " + e.message(), e.remedy());
  } catch (const std::bad_alloc&) {
    failure.cause = "out of memory";
  } catch (const std::exception& e) {
    failure.cause = e.what();
  } catch (...) {
    failure.cause = "an exception that is not a std::exception";
  }
  failure.step = oldest_step(*hosted.actor);
  self->send(hosted.supervisor, std::move(failure));
  self->quit(caf::sec::runtime_error);
}

void on_packet(ActorHost* self, Packet& packet) {
  HostedActor& hosted = self->state;
  hosted.run->gauges[hosted.index].remove();
  const auto& edge = hosted.run->graph.edges()[packet.header.edge];
  RuntimeAccess::deliver(*hosted.actor->inputs()[edge.input], std::move(packet));
}

void on_credit(ActorHost* self, const Credit& credit) {
  HostedActor& hosted = self->state;
  hosted.run->gauges[hosted.index].remove();
  const auto& edge = hosted.run->graph.edges()[credit.edge];
  RuntimeAccess::credit(*hosted.actor->outputs()[edge.output], credit);
}

void on_resume(ActorHost* self, const Resume&) { self->state.resumes = false; }

// A replacement that has not started gets the newest commit with Start, once.
void on_commit(ActorHost* self, const Commit& commit) {
  if (self->state.started) self->state.actor->on_commit(commit);
}

void on_posted_work(ActorHost* self, const PostedWork& posted) { posted.work(*self->state.actor); }

void report_and_quit(ActorHost* self) {
  HostedActor& hosted = self->state;
  account_device(hosted);
  hosted.time.settle();
  hosted.report.time = hosted.time.split();
  for (const InputPort* port : hosted.actor->inputs())
    hosted.report.dropped += RuntimeAccess::dropped(*port);
  self->send(hosted.supervisor,
             FinalReport{hosted.index, std::move(hosted.report), std::move(hosted.trace)});
  self->quit();
}

// The fences of a stream pass in order, and so do the effects behind them leave.
void on_fence_passed(ActorHost* self, const FencePassed&) {
  HostedActor& hosted = self->state;
  account_device(hosted);
  while (!hosted.held_back.empty() && hosted.held_back.front().fence->done()) {
    HeldBack first = std::move(hosted.held_back.front());
    hosted.held_back.pop_front();
    first.fence->status().value();  // the actor fails if its work has
    dispatch(self, first.effects);
  }
  if (hosted.stops && hosted.held_back.empty()) report_and_quit(self);
}

/// How many messages wait; 0 if the next one of a port is not of a committed step.
std::size_t committed_messages(const HostedActor& hosted, std::uint32_t steps) {
  std::size_t count = 0;
  for (const InputPort* port : hosted.actor->inputs()) {
    if (port->ready() && port->header().key.step >= steps) return 0;
    count += RuntimeAccess::queued(*port);
  }
  return count;
}

/// No commit waits for an actor that does not vote: it may have messages of the last steps left.
/// Takes them, until an action takes none.
void take_last_messages(ActorHost* self, std::uint32_t steps) {
  HostedActor& hosted = self->state;
  if (!hosted.started || hosted.actor->votes()) return;
  std::size_t left = committed_messages(hosted, steps);
  for (std::size_t before = left + 1; 0 < left && left < before && hosted.actor->ready();) {
    act(self);
    before = std::exchange(left, committed_messages(hosted, steps));
  }
}

void on_stop(ActorHost* self, const Stop& stop) {
  HostedActor& hosted = self->state;
  take_last_messages(self, stop.steps);
  hosted.stops = true;
  if (hosted.held_back.empty()) return report_and_quit(self);
  if (!hosted.stream->errors_end_run()) return;
  tell_when_passed(self, hosted.held_back.back().fence);  // see hold_back()
}

/// Whether the message waits for its fence: it has not left yet.
bool is_held_back(const HostedActor& hosted, const Header& header) {
  const auto is_it = [&](const Packet& packet) {
    return packet.header.edge == header.edge && packet.header.slot == header.slot;
  };
  return std::ranges::any_of(hosted.held_back, [&](const HeldBack& one) {
    return std::ranges::any_of(one.effects.packets, is_it);
  });
}

void on_start(ActorHost* self, const Start& start) {
  HostedActor& hosted = self->state;
  hosted.addresses = *start.addresses;
  for (OutputPort* port : hosted.actor->outputs())
    RuntimeAccess::begin_incarnation(*port, hosted.incarnation);
  hosted.started = true;
}

void on_replaced(ActorHost* self, const Replaced& replaced) {
  HostedActor& hosted = self->state;
  hosted.addresses[replaced.actor] = replaced.address;
  const auto& edges = hosted.run->graph.edges();
  for (std::uint32_t id = 0; id < edges.size(); ++id) {
    if (edges[id].from == replaced.actor && edges[id].to == hosted.index)
      RuntimeAccess::sender_replaced(*hosted.actor->inputs()[edges[id].input], id,
                                     replaced.address.incarnation);
    if (edges[id].to != replaced.actor || edges[id].from != hosted.index) continue;
    for (Packet& packet : RuntimeAccess::unreleased(*hosted.actor->outputs()[edges[id].output], id))
      if (!is_held_back(hosted, packet.header))
        send_packet(self, replaced.actor, std::move(packet));
  }
}

template <class Message>
auto handler(ActorHost* self, void (*handle)(ActorHost*, Message&)) {
  return [self, handle](Message& message) {
    std::atomic<bool>& acting = self->state.run->gauges[self->state.index].acting;
    acting.store(true, std::memory_order_relaxed);
    guard(self, [&] {
      handle(self, message);
      run_actions(self);
    });
    acting.store(false, std::memory_order_relaxed);
  };
}

std::size_t mailbox_bound(const Graph& graph, std::size_t actor) {
  std::size_t slots = 0;
  for (const auto& edge : graph.edges())
    if (edge.from == actor || edge.to == actor) slots += edge.options.slots;
  return slots;
}

}  // namespace

caf::behavior yield_actor(CafBase* self) {
  return {[self](Resume resume) {
    self->send(caf::actor_cast<caf::actor>(self->current_sender()), resume);
  }};
}

caf::behavior host_actor(ActorHost* self, std::shared_ptr<RunState> run, std::uint32_t index,
                         std::uint32_t incarnation,
                         const std::shared_ptr<std::unique_ptr<Actor>>& actor,
                         caf::actor supervisor) {
  HostedActor& hosted = self->state;
  hosted.run = std::move(run);
  hosted.index = index;
  hosted.incarnation = incarnation;
  hosted.actor = std::move(*actor);
  hosted.stream = hosted.actor->stream();
  hosted.supervisor = std::move(supervisor);
  hosted.report.name = hosted.run->graph.actors()[index].name;
  hosted.report.mailbox_bound = mailbox_bound(hosted.run->graph, index);
  hosted.time = TimeAccount(Clock::now());
  RuntimeAccess::set_poster(*hosted.actor,
                            [weak = caf::actor_addr(self->address()), run = hosted.run.get()] {
                              return [weak, is_held = run->posters](Post work) {
                                if (auto strong = caf::actor_cast<caf::actor>(weak))
                                  caf::anon_send(strong, PostedWork{std::move(work)});
                              };
                            });
  return {
      handler(self, on_packet),   handler(self, on_credit),       handler(self, on_resume),
      handler(self, on_commit),   handler(self, on_posted_work),  handler(self, on_start),
      handler(self, on_replaced), handler(self, on_fence_passed), handler(self, on_stop),
  };
}

}  // namespace troupe::flow
