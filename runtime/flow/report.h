#pragma once
// What a run returns at its end.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/flow/header.h"

namespace troupe {

/// One action in a trace; times since the start of the run.
struct TraceEvent {
  std::size_t actor = 0;  ///< index in the graph
  std::string name;       ///< ActionLabel::name
  MessageKey key;
  std::chrono::nanoseconds begin{0}, end{0};

  static void members(auto& self, auto& visit) {
    visit(self.actor);
    visit(self.name);
    visit(self.key);
    visit(self.begin);
    visit(self.end);
  }
};

/// How an actor spent the wall time of the run. The four parts sum to the time since its start, or
/// since that of its last replacement.
struct TimeSplit {
  std::chrono::nanoseconds compute{0}, no_input{0}, no_credit{0}, other{0};
  std::chrono::nanoseconds total() const { return compute + no_input + no_credit + other; }

  static void members(auto& self, auto& visit) {
    visit(self.compute);
    visit(self.no_input);
    visit(self.no_credit);
    visit(self.other);
  }
};

struct ActorReport {
  std::string name;
  std::uint32_t process = 0;  ///< where the actor was placed
  TimeSplit time;
  std::uint64_t actions = 0;  ///< as `dropped`, since its last replacement
  int restarts = 0;
  std::uint64_t dropped = 0;      ///< messages of older incarnations or repeated ones
  std::size_t peak_mailbox = 0;   ///< most messages that waited at once
  std::size_t mailbox_bound = 0;  ///< slots of its edges, both ways
  /// Messages by outgoing edge, in the order of the graph. Those that a replacement computes again
  /// count again; those that are resent to a replacement do not.
  std::vector<std::uint64_t> sent;

  static void members(auto& self, auto& visit) {
    visit(self.name);
    visit(self.process);
    visit(self.time);
    visit(self.actions);
    visit(self.restarts);
    visit(self.dropped);
    visit(self.peak_mailbox);
    visit(self.mailbox_bound);
    visit(self.sent);
  }
};

struct RunReport {
  /// Process 0: all actors, in the order of the graph. Other processes: their own actors.
  std::vector<ActorReport> actors;
  std::vector<TraceEvent> trace;   ///< in no order; empty unless RunOptions::trace
  std::uint32_t steps = 0;         ///< committed steps, earlier runs' included
  std::uint32_t replacements = 0;  ///< a replacement of several actors at once counts once
  bool stopped = false;            ///< ended by RunOptions::stop
  std::chrono::nanoseconds wall{0};
};

}  // namespace troupe
