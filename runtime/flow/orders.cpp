// Executes the orders of the run leader.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "runtime/device/device_stream.h"
#include "runtime/flow/process_supervisor.h"

namespace troupe::flow {
namespace {

bool is_here(const ProcessSupervisor& supervisor, std::size_t actor) {
  return supervisor.run->placement.is_here(actor);
}

void conclude(SupervisorActor* self, Result<RunReport> result) {
  ProcessSupervisor& supervisor = self->state;
  if (result) result.value().wall = Clock::now() - supervisor.run->start;
  supervisor.run->done(std::move(result));
  self->quit();
}

void commit(SupervisorActor* self, const Commit& commit) {
  ProcessSupervisor& supervisor = self->state;
  for (std::size_t actor = 0; actor < supervisor.votes.size(); ++actor) {
    auto& vote = supervisor.votes[actor];
    if (!vote || vote->vote.step != commit.step) continue;
    supervisor.committed[actor] = std::move(*vote);
    vote.reset();
  }
  for (const auto& host : supervisor.hosts)
    if (host) self->send(host, commit);
}

/// Ends the incarnations to replace. One that is at work ends after its action.
void prepare(SupervisorActor* self, const Replacement& order) {
  ProcessSupervisor& supervisor = self->state;
  for (const std::uint32_t actor : order.actors) {
    supervisor.incarnations[actor] = order.incarnation;
    supervisor.votes[actor].reset();
    if (!supervisor.hosts[actor]) continue;
    caf::anon_send_exit(supervisor.hosts[actor], caf::exit_reason::kill);
    supervisor.ending.push_back({actor, std::exchange(supervisor.hosts[actor], nullptr)});
  }
  supervisor.preparing = order;
  make_incarnations(self);
}

/// The neighbours learn the new addresses and send unreleased messages again. Credits for the
/// previous incarnations, which would be lost, are no longer possible.
void rewire(SupervisorActor* self, const Replacement& order) {
  ProcessSupervisor& supervisor = self->state;
  for (std::size_t other = 0; other < supervisor.hosts.size(); ++other) {
    if (!supervisor.hosts[other] || std::ranges::find(order.actors, other) != order.actors.end())
      continue;
    for (const std::uint32_t actor : order.actors)
      self->send(supervisor.hosts[other], Replaced{actor, supervisor.run->directory.get(actor)});
  }
  report(self, PhaseDone{ReplacementPhase::rewire, order.incarnation});
}

void start(SupervisorActor* self, const Replacement& order) {
  ProcessSupervisor& supervisor = self->state;
  const auto addresses =
      std::make_shared<const std::vector<ActorAddress>>(supervisor.run->directory.all());
  for (const std::uint32_t actor : order.actors) {
    if (!supervisor.hosts[actor]) continue;
    self->send(supervisor.hosts[actor], Start{addresses});
    if (order.newest) self->send(supervisor.hosts[actor], *order.newest);
  }
  report(self, PhaseDone{ReplacementPhase::start, order.incarnation});
}

}  // namespace

void report(SupervisorActor* self, RunMessage message) {
  ProcessSupervisor& supervisor = self->state;
  const Placement& placement = supervisor.run->placement;
  if (!placement.leads()) return supervisor.run->options.bridge->send(0, std::move(message));
  supervisor.reported.emplace_back(placement.here(), std::move(message));
  lead(self);
}

void give_order(ProcessSupervisor& supervisor, const RunMessage& order) {
  const Placement& placement = supervisor.run->placement;
  for (std::uint32_t process = 0; process < placement.processes(); ++process)
    if (process != placement.here()) supervisor.run->options.bridge->send(process, order);
  supervisor.orders.push_back(order);
}

void lead(SupervisorActor* self) {
  ProcessSupervisor& supervisor = self->state;
  if (supervisor.leader_decides || !supervisor.leader) return;
  supervisor.leader_decides = true;
  while (!supervisor.orders.empty() || !supervisor.reported.empty()) {
    if (!supervisor.orders.empty()) {
      const RunMessage order = std::move(supervisor.orders.front());
      supervisor.orders.pop_front();
      run_or_fail(self, [&] { execute(self, order); });
    } else {
      const auto [process, message] = std::move(supervisor.reported.front());
      supervisor.reported.pop_front();
      run_or_fail(self, [&, from = process, &what = message] {
        supervisor.leader->receive(from, what, Clock::now());
      });
    }
  }
  supervisor.leader_decides = false;
  if (supervisor.leader->concluded()) conclude(self, supervisor.leader->report());
}

void make_incarnations(SupervisorActor* self) {
  ProcessSupervisor& supervisor = self->state;
  if (!supervisor.preparing || !supervisor.ending.empty()) return;
  const Replacement& order = *supervisor.preparing;
  for (const std::uint32_t actor : order.actors) {
    if (is_here(supervisor, actor)) {
      const std::string& known = supervisor.causes.at(actor);
      const std::string cause =
          known.empty() ? "the failure of another actor restarted the step" : known;
      const auto failed = [&](ErrorCode code, std::string_view why, std::string remedy) {
        fail(self, Error(code,
                         fmt::format("{} failed: {}; its replacement could not be created: {}",
                                     supervisor.run->graph.actors()[actor].name, cause, why),
                         std::move(remedy)));
      };
      try {
        auto made = supervisor.run->graph.make_actor(actor);
        const Voted& committed = supervisor.committed[actor];
        // The previous incarnation's stream may still be at work on the state.
        if (DeviceStream* stream = made->stream(); stream && committed.fence)
          stream->wait(committed.fence, Awaits::results);
        made->restore(committed.vote.state, order.steps);
        spawn_host(self, actor, std::move(made));
      } catch (const Error& error) {
        return failed(is_lasting(error.code()) ? error.code() : ErrorCode::actor_failed,
                      error.message(), error.remedy());
      } catch (const std::exception& error) {
        return failed(ErrorCode::actor_failed, error.what(), {});
      }
    }
    supervisor.run->directory.set(actor, {supervisor.hosts[actor], order.incarnation});
  }
  const Placement& placement = supervisor.run->placement;
  for (std::uint32_t process = 0; process < placement.processes(); ++process)
    if (process != placement.here())
      supervisor.run->options.bridge->send(process, RunMessage(Flushed{order.incarnation}));
  ++supervisor.flushed[order.incarnation];
  report_if_prepared(self);
}

void spawn_host(SupervisorActor* self, std::size_t actor, std::unique_ptr<Actor> made) {
  ProcessSupervisor& supervisor = self->state;
  supervisor.run->gauges[actor].waiting = 0;
  supervisor.run->gauges[actor].held = 0;
  supervisor.run->gauges[actor].on_device = false;
  supervisor.causes[actor].clear();
  supervisor.hosts[actor] = self->spawn(
      host_actor, supervisor.run, static_cast<std::uint32_t>(actor), supervisor.incarnations[actor],
      std::make_shared<std::unique_ptr<Actor>>(std::move(made)), caf::actor_cast<caf::actor>(self));
  self->monitor(supervisor.hosts[actor]);
}

void end_run(SupervisorActor* self, const EndRun& end) {
  ProcessSupervisor& supervisor = self->state;
  if (supervisor.stopping) return;
  supervisor.stopping = true;
  supervisor.end = end;
  for (const auto& host : supervisor.hosts) {
    if (!host) continue;  // failed without a replacement, or in another process
    ++supervisor.awaited;
    self->send(host, Stop{end.failure ? 0 : end.steps});
  }
  supervisor.awaited += supervisor.ending.size();
  if (supervisor.awaited == 0) report_end(self);
}

void report_trace(SupervisorActor* self) {
  const std::vector<TraceEvent>& trace = self->state.trace;
  for (auto from = trace.begin(); from != trace.end();) {
    const auto to = from + std::min<std::ptrdiff_t>(TracePart::most_events, trace.end() - from);
    report(self, TracePart{.begun = self->state.begun, .events = {from, to}});
    from = to;
  }
}

void report_end(SupervisorActor* self) {
  ProcessSupervisor& supervisor = self->state;
  ProcessEnded ended;
  for (std::size_t actor = 0; actor < supervisor.reports.size(); ++actor) {
    if (!is_here(supervisor, actor)) continue;
    supervisor.reports[actor].process = supervisor.run->placement.here();
    supervisor.reports[actor].peak_mailbox = supervisor.run->gauges[actor].peak;
    const auto& edges = supervisor.run->graph.edges();
    for (std::size_t edge = 0; edge < edges.size(); ++edge)
      if (edges[edge].from == actor)
        supervisor.reports[actor].sent.push_back(supervisor.run->sent[edge]);
    ended.actors.push_back(std::move(supervisor.reports[actor]));
  }
  if (!supervisor.end->failure) report_trace(self);
  if (supervisor.leader) return report(self, std::move(ended));
  if (supervisor.run->placement.leads())
    return conclude(self, *supervisor.end->failure);  // it failed before it had a leader
  RunReport here{.actors = ended.actors,
                 .trace = std::move(supervisor.trace),
                 .steps = supervisor.end->steps,
                 .replacements = supervisor.end->replacements,
                 .stopped = supervisor.end->stopped};
  report(self, std::move(ended));
  if (supervisor.end->failure) return conclude(self, *supervisor.end->failure);
  conclude(self, std::move(here));
}

void fail(SupervisorActor* self, Error error) {
  ProcessSupervisor& supervisor = self->state;
  if (supervisor.leader || !supervisor.run->placement.leads())
    return report(self, RunFailed{std::move(error)});
  end_run(self, EndRun{.failure = std::move(error)});
}

void report_if_prepared(SupervisorActor* self) {
  ProcessSupervisor& supervisor = self->state;
  if (!supervisor.preparing) return;
  const std::uint32_t incarnation = supervisor.preparing->incarnation;
  if (supervisor.flushed[incarnation] < supervisor.run->placement.processes()) return;
  supervisor.flushed.erase(incarnation);
  supervisor.preparing.reset();
  report(self, PhaseDone{ReplacementPhase::prepare, incarnation});
}

void execute(SupervisorActor* self, const RunMessage& order) {
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
