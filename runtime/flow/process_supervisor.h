#pragma once
// Inside the runtime: who watches over the actors of a process. It hears them and the other
// processes (supervisor.cpp), and carries out what the lead orders (orders.cpp).

#include <deque>
#include <map>

#include "runtime/flow/actor_host.h"
#include "runtime/flow/run_leader.h"

namespace troupe::flow {

/// Watches over the actors of this process: spawns them, keeps their committed states, carries out
/// what the lead orders. In process 0 it holds the lead as well.
struct ProcessSupervisor {
  std::shared_ptr<Shared> shared;
  std::unique_ptr<RunLeader> lead;  ///< in process 0
  std::int64_t begun = 0;           ///< see ProcessEnded
  std::vector<caf::actor> hosts;    ///< by actor; null for the dead and for those elsewhere
  std::vector<std::uint32_t> incarnations;
  std::vector<std::string> causes;
  std::vector<std::optional<std::pair<std::uint32_t, CommittedState>>> ballots;  ///< step, state
  std::vector<CommittedState> committed;
  std::map<std::uint32_t, std::uint32_t> flushed;  ///< by incarnation: processes heard of
  std::optional<Replacement> preparing;
  std::vector<ActorReport> reports;
  std::vector<TraceEvent> trace;
  std::size_t awaited = 0;  ///< life reports until the end
  bool stopping = false;
  std::optional<EndRun> end;

  /// What the lead is to hear and what it ordered, until the handler at work is through.
  std::deque<std::pair<std::uint32_t, RunMessage>> heard;
  std::deque<RunMessage> orders;
  bool draining = false;
};

caf::behavior process_supervisor(CafActor<ProcessSupervisor>* self, std::shared_ptr<Shared> shared);

using SupervisorSelf = CafActor<ProcessSupervisor>*;

// What hearing and carrying out need of each other.

/// Tells the lead, wherever it is.
void tell_lead(SupervisorSelf self, RunMessage note);
/// Where the lead is: lets it hear, and does what it orders, until there is nothing of either.
void let_lead_decide(SupervisorSelf self);
/// What the lead orders goes to the others at once, and is done here after the handler at work.
void give_order(ProcessSupervisor& supervisor, const RunMessage& order);
/// Carries an order out.
void obey(SupervisorSelf self, const RunMessage& order);
/// Stops the actors; when the last has ended, the lead is told, or the run is over.
void end_run(SupervisorSelf self, const EndRun& end);
/// Every actor of this process has ended.
void tell_ended(SupervisorSelf self);
/// The run fails, by the lead's word where there is one.
void fail(SupervisorSelf self, Error error);
/// Tells the lead when this process is ready for the phase after `prepare`.
void report_if_prepared(SupervisorSelf self);
void spawn_host(SupervisorSelf self, std::size_t actor, std::unique_ptr<Actor> core);

/// Runs what may throw (a factory, a callback of the user's): the run fails with it, and ends.
template <class F>
void attempt(SupervisorSelf self, F&& work) {
  try {
    work();
  } catch (const Error& error) {
    fail(self, error);
  } catch (const std::exception& error) {
    fail(self, Error(ErrorCode::actor_failed, error.what()));
  }
}

}  // namespace troupe::flow
