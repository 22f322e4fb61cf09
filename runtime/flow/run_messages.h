#pragma once
// What the processes of a run say to each other about its actors: up to the lead, which decides
// for all of them, and down from it. Within one process the same notes go by function call.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/error.h"
#include "runtime/flow/actor.h"
#include "runtime/flow/report.h"

namespace troupe {

// Up.

/// An actor is ready with a step; its state stays in its process.
struct Vote {
  std::uint32_t actor = 0;
  std::uint32_t incarnation = 0;  ///< of the actor
  std::uint32_t step = 0;
};
struct ActorDied {
  std::uint32_t actor = 0;
  std::uint32_t incarnation = 0;
  std::string cause;
  std::optional<Error> lasting;  ///< set where a replacement would only meet it again
};
/// See Actor::finish and Actor::accept_snapshots.
struct ActorNews {
  std::uint32_t actor = 0;
  std::optional<bool> accepts_snapshot;
  bool finished = false;
};
struct StopWanted {};
/// Something failed that no actor's replacement can mend.
struct RunFailed {
  Error error;
};
/// The answer to EndRun.
struct ProcessEnded {
  std::int64_t begun = 0;           ///< when this process's run began, in Unix nanoseconds
  std::vector<ActorReport> actors;  ///< of this process
  std::vector<TraceEvent> trace;
};

// Down.

/// Replacing actors takes three phases; the lead begins one when every process is through the one
/// before. So what was sent before a death never mixes with what is sent after it: in `prepare` the
/// new lives are made, and what still comes for the old ones is dropped (its senders hold it); when
/// everybody is ready, in `rewire`, the neighbours send it again to the new lives, which begin with
/// `start`.
enum class ReplacementPhase : std::uint8_t { prepare, rewire, start };

struct Replacement {
  ReplacementPhase phase = ReplacementPhase::prepare;
  std::uint32_t incarnation = 0;  ///< of the new lives
  std::uint32_t steps = 0;        ///< that are whole
  std::vector<std::uint32_t> actors;
  std::optional<Commit> newest;  ///< in `start`: their former lives may not have heard of it
};
/// The answer: this process is through the phase.
struct PhaseDone {
  ReplacementPhase phase = ReplacementPhase::prepare;
  std::uint32_t incarnation = 0;
};
/// Every actor ends now: the run is done, or has failed.
struct EndRun {
  std::optional<Error> failure;
  std::uint32_t steps = 0;
  std::uint32_t replacements = 0;
  bool stopped = false;
};

// Sideways.

/// The last thing that a process sends to another before it is through `prepare`: whatever its dead
/// actors had sent is there when this is.
struct Flushed {
  std::uint32_t incarnation = 0;
};

using RunMessage = std::variant<Vote, ActorDied, ActorNews, StopWanted, RunFailed, ProcessEnded,
                                Commit, Replacement, PhaseDone, EndRun, Flushed>;

}  // namespace troupe
