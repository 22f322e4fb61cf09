#pragma once
#include <any>
#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "runtime/flow/graph.h"
#include "runtime/flow/supervisor.h"

namespace troupe {

/// Makes an actor's handler throw, once, at the first action that fits: to see recovery work.
struct FaultOptions {
  std::string actor;  ///< "stage/1", or a prefix: "stage" fits "stage/0"
  std::uint32_t step = 0;
  std::uint32_t micro_batch = 0;
  std::string action;  ///< "F", "B", …; empty fits any
  Purpose purpose = Purpose::train;
};

/// Something that went wrong and was dealt with.
struct FailureReport {
  std::string actor;
  std::string cause;
  std::vector<std::string> replaced;  ///< the actors that were started anew
  std::uint32_t generation = 0;
  std::uint32_t steps = 0;  ///< whole steps at that moment; the next one is replayed
};

enum class Scheduling {
  threads,        ///< CAF's work sharing over RunOptions::threads workers
  deterministic,  ///< one thread, one message at a time, in an order that `seed` picks
};

struct RunOptions {
  int threads = 1;
  StepPlan steps;
  RestartBudget restarts;
  std::vector<FaultOptions> faults;
  bool trace = false;
  std::stop_token stop;  ///< ends the run at the next commit, with a snapshot
  std::function<void(const std::any&)> on_event;         ///< what actors `tell`; on actor threads
  std::function<void(const FailureReport&)> on_failure;  ///< on an actor thread
  Scheduling scheduling = Scheduling::threads;
  std::uint64_t seed = 0;      ///< 0: first come, first served
  bool prove_liveness = true;  ///< refuse a graph that find_deadlock finds fault with
};

/// One action in a trace; times since the start of the run.
struct TraceEvent {
  std::size_t actor = 0;
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
  TimeSplit time;
  std::uint64_t actions = 0;
  int restarts = 0;
  std::uint64_t dropped = 0;      ///< messages of older generations or repeated ones
  std::size_t peak_mailbox = 0;   ///< most messages that waited at once
  std::size_t mailbox_bound = 0;  ///< slots of its edges, both ways
};

struct RunReport {
  std::vector<ActorReport> actors;
  std::vector<TraceEvent> trace;  ///< in no order; empty unless asked for
  std::uint32_t steps = 0;        ///< whole steps, earlier runs' included
  std::uint32_t generation = 0;   ///< how often an actor was replaced
  bool stopped = false;           ///< ended by RunOptions::stop
  std::chrono::nanoseconds wall{0};
};

/// Runs the graph until its steps are done and nobody holds it open. First proves that it cannot
/// stand still (find_deadlock). Throws Error: bad_graph for a deadlock or
/// a port without an edge, actor_failed when a restart
/// budget is spent. Blocks the calling thread, which does no work meanwhile (it does all of it
/// under deterministic scheduling).
RunReport run(const Graph& graph, const RunOptions& options);

}  // namespace troupe
