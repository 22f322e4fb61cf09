#include "runtime/flow/process_supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/device/device_stream.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe::flow {
namespace {

/// Passes messages of other processes to the actors of this one.
class Arrivals {
 public:
  Arrivals(std::shared_ptr<RunState> run, caf::actor supervisor)
      : run_(std::move(run)), supervisor_(std::move(supervisor)) {}

  void pass_on(std::uint32_t from, Packet packet) const {
    const Header header = packet.header;
    const auto& edges = run_->graph.edges();
    if (header.edge >= edges.size() || !joins(edges[header.edge].from, from, edges[header.edge].to))
      return refuse(from, fmt::format("a message on edge {}", header.edge));
    const std::size_t actor = edges[header.edge].to;
    const ActorAddress address = run_->directory.get(actor);
    if (header.receiver == address.incarnation) send(actor, address, std::move(packet));
  }

  void pass_on(std::uint32_t from, const Credit& credit) const {
    const auto& edges = run_->graph.edges();
    if (credit.edge >= edges.size() || credit.slot >= edges[credit.edge].options.slots ||
        !joins(edges[credit.edge].to, from, edges[credit.edge].from))
      return refuse(from, fmt::format("slot {} of edge {}", credit.slot, credit.edge));
    const std::size_t actor = edges[credit.edge].from;
    send(actor, run_->directory.get(actor), credit);  // its port knows older incarnations' ones
  }

  void pass_on(std::uint32_t from, RunMessage message) const {
    caf::anon_send(supervisor_, RemoteRunMessage{from, std::move(message)});
  }

  void lost(std::uint32_t process, const Error& reason) const {
    caf::anon_send(supervisor_, LostProcess{process, reason});
  }

 private:
  /// Whether `sender` lives in the process `from`, and `receiver` here.
  bool joins(std::size_t sender, std::uint32_t from, std::size_t receiver) const {
    return run_->placement.of(sender) == from && run_->placement.is_here(receiver);
  }

  template <class Message>
  void send(std::size_t actor, const ActorAddress& address, Message message) const {
    if (!address.actor) return;
    run_->gauges[actor].add();
    caf::anon_send(address.actor, std::move(message));
  }

  void refuse(std::uint32_t from, const std::string& what) const {
    lost(from, Error(ErrorCode::bad_message,
                     fmt::format("rank {} sent {}, which is not part of this run", from, what),
                     "start all processes from the same program with the same arguments"));
  }

  std::shared_ptr<RunState> run_;
  caf::actor supervisor_;
};

void on_down(SupervisorActor* self, std::size_t actor) {
  ProcessSupervisor& supervisor = self->state;
  supervisor.hosts[actor] = nullptr;
  if (supervisor.stopping) {
    // It ended without an answer to Stop: no report comes from it.
    if (--supervisor.awaited == 0) report_end(self);
    return;
  }
  const std::string& cause = supervisor.causes[actor];
  report(self, ActorFailed{static_cast<std::uint32_t>(actor),
                           supervisor.incarnations[actor],
                           cause.empty() ? "it gave no reason" : cause,
                           {}});
}

/// A host of a previous incarnation has ended.
void on_killed(SupervisorActor* self) {
  ProcessSupervisor& supervisor = self->state;
  if (!supervisor.stopping) return run_or_fail(self, [&] { make_incarnations(self); });
  if (--supervisor.awaited == 0) report_end(self);
}

void on_failure(SupervisorActor* self, const ActorFailed& failure) {
  ProcessSupervisor& supervisor = self->state;
  if (failure.incarnation != supervisor.incarnations[failure.actor]) return;  // replaced meanwhile
  supervisor.causes[failure.actor] = failure.cause;
  if (supervisor.stopping) {  // there is no replacement, whatever the error; its end is awaited
    const auto& actor = supervisor.run->graph.actors()[failure.actor];
    const std::uint32_t steps = supervisor.end->steps;
    const bool is_cut_off = steps > 0 && failure.step.value_or(0) >= steps;
    // In a step that is not committed:
    if (!failure.lasting && (is_cut_off || actor.prototype->votes())) {
      supervisor.reports[failure.actor].name = actor.name;
      return;
    }
    ActorFailed last = failure;
    if (!last.lasting)
      last.lasting.emplace(
          ErrorCode::actor_failed,
          supervisor.run->graph.actors()[failure.actor].name + ": " + failure.cause,
          "all steps are committed; only what this actor does with its last messages is missing");
    return report(self, std::move(last));
  }
  if (!failure.lasting) return;  // on_down reports it
  supervisor.hosts[failure.actor] = nullptr;
  report(self, failure);
}

void on_vote(SupervisorActor* self, const Voted& voted) {
  ProcessSupervisor& supervisor = self->state;
  const Vote& vote = voted.vote;
  if (vote.incarnation != supervisor.incarnations[vote.actor] || supervisor.stopping) return;
  supervisor.votes[vote.actor] = voted;
  report(self, Vote{vote.actor, vote.incarnation, vote.step, vote.ends});  // the state stays here
}

void on_events(SupervisorActor* self, const EmittedEvents& emitted) {
  const auto& on_event = self->state.run->options.on_event;
  if (!on_event) return;
  for (const std::any& event : emitted.events) on_event(event);
}

void on_remote(SupervisorActor* self, const RemoteRunMessage& remote) {
  ProcessSupervisor& supervisor = self->state;
  if (const auto* flushed = std::get_if<Flushed>(&remote.message)) {
    ++supervisor.flushed[flushed->incarnation];
    report_if_prepared(self);
  } else if (supervisor.leader) {
    supervisor.reported.emplace_back(remote.from, remote.message);
    lead(self);
  } else if (remote.from == 0) {
    execute(self, remote.message);
  }
}

void on_lost(SupervisorActor* self, const LostProcess& lost) {
  ProcessSupervisor& supervisor = self->state;
  if (supervisor.leader) {
    supervisor.leader->lost(lost.process, lost.reason);
    return lead(self);
  }
  if (lost.process != 0) return fail(self, lost.reason);
  end_run(self, EndRun{.failure = lost.reason});  // the leader is lost
}

/// Warns once if a replacement has waited since the last check for incarnations that do not end.
void check_replacement(ProcessSupervisor& supervisor) {
  if (!supervisor.preparing || supervisor.ending.empty()) return;
  const std::uint32_t incarnation = supervisor.preparing->incarnation;
  if (std::exchange(supervisor.checked_replacement, incarnation) != incarnation)
    supervisor.checks_of_it = 0;
  if (++supervisor.checks_of_it != 2) return;
  std::vector<std::string> names;
  for (const auto& one : supervisor.ending)
    names.push_back(supervisor.run->graph.actors()[one.actor].name);
  print_error(
      "warning: a replacement waits for the previous incarnation of {}, which was told to end but "
      "has not returned from act(); act() must not block\n",
      listed(names));
}

void on_deadlock(SupervisorActor* self) {
  const RunState& run = *self->state.run;
  const std::vector<std::string> holders = holders_of_messages(run);
  const std::string votes = self->state.leader ? self->state.leader->missing_votes() : "";
  const std::string_view threads = run.options.scheduling == Scheduling::deterministic
                                       ? "let no actor wait for a thread of its own, "
                                       : "";
  fail(self, Error(ErrorCode::bad_graph,
                   "the graph is deadlocked: no actor has anything to do" +
                       (votes.empty() ? "" : "; " + votes) +
                       (holders.empty() ? "" : "; " + listed(holders, 4)),
                   fmt::format("release every message that an actor takes, give its edge as many "
                               "slots as it holds at once, {}or check firing_rules() of the actors",
                               threads)));
}

void on_check(SupervisorActor* self, const CheckProgress& check) {
  ++self->state.run->checks;
  check_replacement(self->state);
  RunLeader* leader = self->state.leader.get();
  if (!leader) return;
  if (check.activity == Activity::stuck && !self->state.end) return on_deadlock(self);
  if (const std::string overdue = leader->overdue_votes(check.activity != Activity::some,
                                                        holders_of_messages(*self->state.run));
      !overdue.empty())
    print_error("warning: {}\n", overdue);
}

void on_final_report(SupervisorActor* self, const FinalReport& final) {
  ProcessSupervisor& supervisor = self->state;
  supervisor.hosts[final.actor] = nullptr;  // its down message follows and is ignored
  supervisor.reports[final.actor] = final.report;
  supervisor.trace.insert(supervisor.trace.end(), final.trace.begin(), final.trace.end());
  if (--supervisor.awaited == 0) report_end(self);
}

void spawn_first_incarnation(SupervisorActor* self, std::size_t actor) {
  ProcessSupervisor& supervisor = self->state;
  if (!supervisor.run->placement.is_here(actor)) return;
  auto made = supervisor.run->graph.make_actor(actor);
  made->begin_run();
  made->restore(nullptr, supervisor.run->options.steps.first);
  if (const DeviceStream* stream = made->stream())
    supervisor.run->stream_backends[actor] = stream->device().backend;
  spawn_host(self, actor, std::move(made));
  supervisor.run->directory.set(actor, {supervisor.hosts[actor], 0});
}

void begin(SupervisorActor* self) {
  ProcessSupervisor& supervisor = self->state;
  const Graph& graph = supervisor.run->graph;
  const RunOptions& options = supervisor.run->options;
  const std::size_t actors = graph.actors().size();
  supervisor.begun = std::chrono::duration_cast<std::chrono::nanoseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
  supervisor.hosts.resize(actors);
  supervisor.incarnations.resize(actors);
  supervisor.causes.resize(actors);
  supervisor.votes.resize(actors);
  supervisor.committed.resize(actors);
  supervisor.reports.resize(actors);
  if (supervisor.run->placement.leads())
    supervisor.leader = std::make_unique<RunLeader>(
        graph, supervisor.run->placement, options, supervisor.begun,
        [&supervisor](const RunMessage& order) { give_order(supervisor, order); });
  // Opened even if this process cannot begin: the others wait for its answers.
  const auto open = [&] {
    if (!options.bridge) return;
    const Arrivals arrivals(supervisor.run, caf::actor_cast<caf::actor>(self));
    options.bridge->open(
        [arrivals](std::uint32_t from, BridgeMessage message) {
          std::visit([&](auto& one) { arrivals.pass_on(from, std::move(one)); }, message);
        },
        [arrivals](std::uint32_t process, const Error& reason) { arrivals.lost(process, reason); });
  };
  try {
    for (std::size_t actor = 0; actor < actors; ++actor) spawn_first_incarnation(self, actor);
  } catch (...) {
    open();
    throw;
  }
  open();
  const auto addresses =
      std::make_shared<const std::vector<ActorAddress>>(supervisor.run->directory.all());
  for (const auto& host : supervisor.hosts)
    if (host) self->send(host, Start{addresses});
  if (supervisor.leader) supervisor.leader->begin();
  lead(self);
}

}  // namespace

std::vector<std::string> holders_of_messages(const RunState& run) {
  std::vector<std::pair<std::uint32_t, std::string>> holders;  // with the step of the oldest
  for (std::size_t actor = 0; actor < run.gauges.size(); ++actor)
    if (const std::uint32_t held = run.gauges[actor].held) {
      const std::uint32_t since = run.gauges[actor].held_since;
      holders.emplace_back(
          since, fmt::format("{} has held {} since step {}", run.graph.actors()[actor].name,
                             counted(held, "message"), since));
    }
  std::ranges::stable_sort(holders, {}, &decltype(holders)::value_type::first);
  std::vector<std::string> texts;
  texts.reserve(holders.size());
  for (auto& [since, text] : holders) texts.push_back(std::move(text));
  return texts;
}

caf::behavior process_supervisor(SupervisorActor* self, std::shared_ptr<RunState> run) {
  self->state.run = std::move(run);
  // The run cannot end without its supervisor: what run_or_fail() does not catch ends the process.
  self->set_exception_handler([](std::exception_ptr& thrown) -> caf::error {
    [&]() noexcept { std::rethrow_exception(thrown); }();
    return {};
  });
  self->set_down_handler([self](const caf::down_msg& down) {
    if (std::erase_if(self->state.ending,
                      [&](const auto& one) { return one.host.address() == down.source; }) > 0)
      return on_killed(self);
    auto& hosts = self->state.hosts;
    for (std::size_t actor = 0; actor < hosts.size(); ++actor)
      if (hosts[actor] && hosts[actor].address() == down.source) return on_down(self, actor);
  });
  self->send(self, Begin{});
  return {
      [self](Begin) { run_or_fail(self, [&] { begin(self); }); },
      [self](const Voted& voted) { run_or_fail(self, [&] { on_vote(self, voted); }); },
      [self](const ActorFailed& failure) { on_failure(self, failure); },
      [self](const EmittedEvents& events) { run_or_fail(self, [&] { on_events(self, events); }); },
      [self](const ActorStatus& status) { run_or_fail(self, [&] { report(self, status); }); },
      [self](const RemoteRunMessage& remote) {
        run_or_fail(self, [&] { on_remote(self, remote); });
      },
      [self](const LostProcess& lost) { on_lost(self, lost); },
      [self](StopRequest stop) { report(self, stop); },
      [self](CheckProgress check) { on_check(self, check); },
      [self](Deadlocked) { on_deadlock(self); },
      [self](const FinalReport& final) { on_final_report(self, final); },
  };
}

}  // namespace troupe::flow
