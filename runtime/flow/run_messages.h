#pragma once
// The messages between the run leader and the processes of a run. Processes send reports about
// their actors to the leader, which decides for all processes and sends orders. Within one process
// the same messages are function calls.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/error.h"
#include "runtime/flow/actor.h"
#include "runtime/flow/report.h"

namespace troupe {

// Reports to the leader, besides Vote and ActorStatus (runtime/flow/actor.h).

struct ActorFailed {
  std::uint32_t actor = 0;
  std::uint32_t incarnation = 0;
  std::string cause;
  std::optional<Error> lasting;  ///< set if a replacement would meet the same error
  /// Of the oldest message that it had not released; none if it had none.
  std::optional<std::uint32_t> step = {};
  static void members(auto& self, auto& visit) {
    visit(self.actor);
    visit(self.incarnation);
    visit(self.cause);
    visit(self.lasting);
    visit(self.step);
  }
};
/// The user asked this process to stop.
struct StopRequest {
  static void members(auto&, auto&) {}
};
/// A failure that the replacement of an actor cannot repair.
struct RunFailed {
  Error error{ErrorCode::internal, {}};
  static void members(auto& self, auto& visit) { visit(self.error); }
};
/// A part of the trace of a process, which precedes its ProcessEnded. The whole trace of a long run
/// would exceed the size of a message (Member::send).
struct TracePart {
  static constexpr std::size_t most_events = 10'000;
  std::int64_t begun = 0;  ///< when this process's run began, in Unix nanoseconds
  std::vector<TraceEvent> events;
  static void members(auto& self, auto& visit) {
    visit(self.begun);
    visit(self.events);
  }
};
/// The answer to EndRun.
struct ProcessEnded {
  std::vector<ActorReport> actors;  ///< of this process
  static void members(auto& self, auto& visit) { visit(self.actors); }
};

// Orders of the leader, besides Commit (runtime/flow/actor.h).

/// The phases of a replacement. The leader begins a phase when every process has finished the
/// previous phase, so messages from before a failure never mix with messages from after it.
/// `prepare`: the previous incarnations end, the next incarnations are created, and messages for
/// the previous incarnations are dropped (their senders hold them). `rewire`: the neighbours resend
/// these messages. `start`: the new incarnations run.
enum class ReplacementPhase : std::uint8_t { prepare, rewire, start };
constexpr ReplacementPhase last_enumerator(ReplacementPhase) { return ReplacementPhase::start; }

struct Replacement {
  ReplacementPhase phase = ReplacementPhase::prepare;
  std::uint32_t incarnation = 0;      ///< of the new actors
  std::uint32_t steps = 0;            ///< committed steps
  std::vector<std::uint32_t> actors;  ///< to replace
  std::optional<Commit> newest;       ///< in `start`: the previous incarnations may have missed it
  static void members(auto& self, auto& visit) {
    visit(self.phase);
    visit(self.incarnation);
    visit(self.steps);
    visit(self.actors);
    visit(self.newest);
  }
};
/// The answer to Replacement: this process has finished the phase.
struct PhaseDone {
  ReplacementPhase phase = ReplacementPhase::prepare;
  std::uint32_t incarnation = 0;
  static void members(auto& self, auto& visit) {
    visit(self.phase);
    visit(self.incarnation);
  }
};
/// Every actor ends now: the run is done, or has failed.
struct EndRun {
  std::optional<Error> failure;
  std::uint32_t steps = 0;
  std::uint32_t replacements = 0;
  bool stopped = false;
  static void members(auto& self, auto& visit) {
    visit(self.failure);
    visit(self.steps);
    visit(self.replacements);
    visit(self.stopped);
  }
};

// Between any two processes.

/// The last message that a process sends to another before it has finished `prepare`: when it
/// arrives, all messages of the sender's failed actors have arrived.
struct Flushed {
  std::uint32_t incarnation = 0;
  static void members(auto& self, auto& visit) { visit(self.incarnation); }
};

using RunMessage = std::variant<Vote, ActorFailed, ActorStatus, StopRequest, RunFailed, TracePart,
                                ProcessEnded, Commit, Replacement, PhaseDone, EndRun, Flushed>;

}  // namespace troupe
