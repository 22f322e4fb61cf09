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

/// Decides for a run in any number of processes: hears what they note and orders commits,
/// replacements and the end. Without threads, clock or connection of its own; it lives in process
/// 0. Orders go to every process, this one included, and reach each in the order they were given.
class RunLeader {
 public:
  using Order = std::function<void(const RunMessage&)>;  ///< tells all processes; may not call back

  RunLeader(const Graph& graph, const Placement& placement, const RunOptions& options,
            std::int64_t begun, Order order);

  void hear(std::uint32_t process, const RunMessage& note, Supervisor::Clock::time_point now);
  void lost(std::uint32_t process, const Error& reason);
  /// Ends the run with an error that no actor is to blame for.
  void fail(const Error& error);

  /// Called once in a while: what to tell the user where a step has waited for the same votes since
  /// the last call, though others have voted or nothing was to do (`idle`). Once a step; nothing
  /// else tells of an actor that forgets to vote.
  std::string overdue_votes(bool idle);

  /// Every process has ended.
  bool concluded() const { return ending_ && missing_ == 0; }
  /// Of all processes; without the wall time. Only when concluded().
  Result<RunReport> report();

 private:
  void vote(const Vote& vote);
  void died(const ActorDied& death, Supervisor::Clock::time_point now);
  void replace(const ActorDied& death, Supervisor::Clock::time_point now);
  void phase_done(std::uint32_t process, const PhaseDone& done);
  void begin_phase(ReplacementPhase phase);
  void ended(std::uint32_t process, const ProcessEnded& report);
  void end_if_done();
  void end(const std::optional<Error>& failure);

  const Graph& graph_;
  const Placement& placement_;
  const RunOptions& options_;
  Order order_;
  Supervisor supervisor_;
  std::int64_t begun_;  ///< as ProcessEnded::begun
  std::uint32_t incarnation_ = 0;
  std::vector<std::uint32_t> incarnations_;  ///< by actor
  std::optional<Replacement> replacing_;
  std::vector<bool> waited_for_;            ///< processes that are not through the phase
  std::deque<ActorDied> deaths_;            ///< heard of during a replacement
  std::vector<std::size_t> missing_votes_;  ///< for step `looked_at_`, at the last look
  std::uint32_t looked_at_ = 0;
  bool told_of_votes_ = false;  ///< of that step

  bool ending_ = false;
  std::optional<Error> failure_;
  std::vector<bool> ended_;  ///< by process
  std::size_t missing_ = 0;
  RunReport report_;
};

}  // namespace troupe
