#pragma once
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/flow/bridge.h"
#include "runtime/flow/run.h"
#include "runtime/flow/supervisor.h"

namespace troupe {

/// Decides for all processes of a run: receives their reports and orders commits, replacements and
/// the end. It lives in process 0 and has no threads or connection, and reads no clock: the caller
/// passes the time. Orders go to every process, this one included, and reach each process in the
/// order in which they were given.
class RunLeader {
 public:
  using Order =
      std::function<void(const RunMessage&)>;  ///< sends to all processes; must not call back

  RunLeader(const Graph& graph, const Placement& placement, const RunOptions& options,
            std::int64_t begun, Order order);

  /// Called once all actors of this process have started.
  void begin();
  void receive(std::uint32_t process, const RunMessage& message, Supervisor::Clock::time_point now);
  void lost(std::uint32_t process, const Error& reason);

  /// Called at intervals. Returns a warning if a step has waited for the same votes since the last
  /// call, and other actors have voted or no actor had anything to do (`idle`). Otherwise returns
  /// an empty text. Warns once per step. In an idle run `holders` names the actors that hold
  /// messages. Without this, an actor that never votes would stop the run without a message.
  std::string overdue_votes(bool idle, const std::vector<std::string>& holders = {});

  /// "step 3 waits for the vote of stage/0"; empty if it waits for none.
  std::string missing_votes() const;

  /// Every process has ended.
  bool concluded() const { return ending_ && missing_ == 0; }
  /// The report of all processes, without the wall time. Requires concluded().
  Result<RunReport> report();

 private:
  void vote(const Vote& vote, Supervisor::Clock::time_point now);
  void commit_if_ready(Supervisor::Clock::time_point now);
  void actor_failed(const ActorFailed& failure, Supervisor::Clock::time_point now);
  void replace(const ActorFailed& failure, Supervisor::Clock::time_point now);
  void phase_done(std::uint32_t process, const PhaseDone& done, Supervisor::Clock::time_point now);
  void begin_phase(ReplacementPhase phase);
  void add_trace(const TracePart& part);
  void ended(std::uint32_t process, const ProcessEnded& report);
  void end_if_done();
  void end(const std::optional<Error>& failure);

  const Graph& graph_;
  const Placement& placement_;
  const RunOptions& options_;
  Order order_;
  Supervisor supervisor_;
  std::int64_t begun_;                       ///< as TracePart::begun
  std::uint32_t incarnation_ = 0;            ///< the newest one: replacements so far
  std::vector<std::uint32_t> incarnations_;  ///< by actor
  std::optional<Replacement> replacing_;
  std::vector<bool> waited_for_;            ///< processes that have not finished the phase
  std::deque<ActorFailed> failures_;        ///< reported during a replacement
  std::vector<std::size_t> missing_votes_;  ///< for `checked_step_`, at the last check
  std::uint32_t checked_step_ = 0;
  bool has_warned_ = false;  ///< about that step

  bool ending_ = false;
  std::optional<Error> failure_;
  std::vector<bool> ended_;  ///< by process
  std::size_t missing_ = 0;  ///< processes that have not ended
  RunReport report_;
};

}  // namespace troupe
