#pragma once
// Internal to the runtime: the CAF actor that supervises the actors of a process. It receives the
// reports of its actors and of other processes (process_supervisor.cpp), and executes the orders of
// the run leader (orders.cpp).

#include <deque>
#include <map>

#include "runtime/flow/actor_host.h"
#include "runtime/flow/run_leader.h"

namespace troupe::flow {

/// Spawns, stops and replaces the actors of this process and keeps their committed states. The
/// supervisor of process 0 also holds the run leader.
struct ProcessSupervisor {
  std::shared_ptr<RunState> run;
  std::unique_ptr<RunLeader> leader;  ///< in process 0
  std::int64_t begun = 0;             ///< see TracePart
  std::vector<caf::actor> hosts;      ///< by actor; null for failed actors and those elsewhere
  std::vector<std::uint32_t> incarnations;
  std::vector<std::string> causes;          ///< why an actor failed; empty while it runs
  std::vector<std::optional<Voted>> votes;  ///< newest of each actor, not committed yet
  std::vector<Voted> committed;             ///< the vote of each actor for the last step
  /// Hosts of previous incarnations that were killed and have not ended yet. They may still send
  /// messages, so the next incarnations are created only when all have ended.
  struct Ending {
    std::size_t actor = 0;
    caf::actor host;
  };
  std::vector<Ending> ending;
  /// The replacement that waited for them at the last check of the progress, and for how many
  /// checks.
  std::uint32_t checked_replacement = 0, checks_of_it = 0;
  std::optional<Replacement> preparing;
  /// By incarnation: the number of processes whose replaced actors send no more messages, including
  /// this process.
  std::map<std::uint32_t, std::uint32_t> flushed;
  std::vector<ActorReport> reports;
  std::vector<TraceEvent> trace;
  std::size_t awaited = 0;  ///< hosts that have not ended, when the run ends
  bool stopping = false;
  std::optional<EndRun> end;

  /// Reports for the leader, with the process that sent them, and orders of it. Both wait until the
  /// current handler is done.
  std::deque<std::pair<std::uint32_t, RunMessage>> reported;
  std::deque<RunMessage> orders;
  bool leader_decides = false;  ///< while lead() runs
};

using SupervisorActor = CafActor<ProcessSupervisor>;

caf::behavior process_supervisor(SupervisorActor* self, std::shared_ptr<RunState> run);

// Called by both source files.

/// Sends a message to the leader, in whichever process it is.
void report(SupervisorActor* self, RunMessage message);
/// In process 0: passes reports to the leader and executes its orders, until none is left.
void lead(SupervisorActor* self);
/// Sends an order of the leader to the other processes and queues it for this one.
void give_order(ProcessSupervisor& supervisor, const RunMessage& order);
/// Executes an order.
void execute(SupervisorActor* self, const RunMessage& order);
/// Stops the actors. After the last one has ended, report_end() follows.
void end_run(SupervisorActor* self, const EndRun& end);
/// Every actor of this process has ended: reports it, and ends the run here.
void report_end(SupervisorActor* self);
/// Fails the run: the leader decides, if there is one.
void fail(SupervisorActor* self, Error error);
/// In the phase `prepare`, once the previous incarnations have ended: makes the next ones with the
/// committed states, and sends Flushed. The next ones begin in the phase `start`.
void make_incarnations(SupervisorActor* self);
/// Reports the phase `prepare` as done once all processes have flushed.
void report_if_prepared(SupervisorActor* self);
void spawn_host(SupervisorActor* self, std::size_t actor, std::unique_ptr<Actor> made);

/// Calls what may throw (a factory, a callback of the caller): an exception fails the run.
/// std::bad_alloc ends the process, because there may be no memory for the message that reports it.
template <class F>
void run_or_fail(SupervisorActor* self, F&& work) {
  try {
    work();
  } catch (const Error& error) {
    fail(self, error);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    fail(self, Error(ErrorCode::actor_failed, error.what()));
  }
}

}  // namespace troupe::flow
