#pragma once
// What a run tells when it has ended.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/flow/actor.h"

namespace troupe {

/// One action in a trace; times since the start of the run.
struct TraceEvent {
  std::size_t actor = 0;  ///< actor of the graph
  ActionLabel label;
  std::chrono::nanoseconds begin{0}, end{0};
};

/// Where an actor's wall time went. The four parts sum to the time it lived.
struct TimeSplit {
  std::chrono::nanoseconds compute{0}, no_input{0}, no_credit{0}, other{0};
  std::chrono::nanoseconds total() const { return compute + no_input + no_credit + other; }
};

struct ActorReport {
  std::string name;
  std::uint32_t process = 0;  ///< where it lived
  TimeSplit time;
  std::uint64_t actions = 0;
  int restarts = 0;
  std::uint64_t dropped = 0;      ///< messages of older incarnations or repeated ones
  std::size_t peak_mailbox = 0;   ///< most messages that waited at once
  std::size_t mailbox_bound = 0;  ///< slots of its edges, both ways
};

struct RunReport {
  /// Of all actors, in the order of the graph; in a process that does not lead, its own ones alone.
  std::vector<ActorReport> actors;
  std::vector<TraceEvent> trace;   ///< in no order; empty unless asked for
  std::uint32_t steps = 0;         ///< whole steps, earlier runs' included
  std::uint32_t replacements = 0;  ///< of actors, one after another or several at once
  bool stopped = false;            ///< ended by RunOptions::stop
  std::chrono::nanoseconds wall{0};
};

}  // namespace troupe
