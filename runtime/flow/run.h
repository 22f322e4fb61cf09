#pragma once
#include <any>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "runtime/flow/graph.h"
#include "runtime/flow/report.h"
#include "runtime/flow/step_options.h"

namespace troupe {

class Bridge;  // runtime/flow/bridge.h

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
  std::uint32_t incarnation = 0;
  std::uint32_t steps = 0;  ///< whole steps at that moment; the next one is replayed
};

enum class Scheduling {
  threads,        ///< CAF's work sharing over RunOptions::threads workers
  deterministic,  ///< one thread, one message at a time, in an order that `seed` picks
};

struct RunOptions {
  int threads = 1;
  StepOptions steps;
  RestartBudget restarts;
  std::vector<FaultOptions> faults;
  bool trace = false;
  std::stop_token stop;  ///< ends the run at the next commit, with a snapshot
  std::function<void(const std::any&)> on_event;         ///< what actors `emit`; on actor threads
  std::function<void(const FailureReport&)> on_failure;  ///< on an actor thread
  Scheduling scheduling = Scheduling::threads;
  std::uint64_t seed = 0;      ///< 0: first come, first served
  bool prove_liveness = true;  ///< refuse a graph that find_deadlock finds fault with

  /// Over several processes (Graph::place) each calls `run` with the same graph and with options
  /// that differ in `process` only; `bridge` joins them.
  std::uint32_t process = 0;
  std::uint32_t processes = 1;
  std::shared_ptr<Bridge> bridge;
  /// Tells this run's messages from those of another, such as the one before a restart: the same in
  /// all processes (JoinedWorld takes the generation of the world). 0: made up, for one process.
  std::uint64_t run_id = 0;
};

/// Runs the graph until its steps are done and nobody holds it open. First proves that it cannot
/// stand still (find_deadlock). Throws Error: bad_graph for a deadlock or a port without an edge,
/// actor_failed when a restart budget is spent, peer_lost when another process is gone; in every
/// process the same. Blocks the calling thread, which does no work meanwhile (it does all of it
/// under deterministic scheduling).
RunReport run(const Graph& graph, const RunOptions& options);

}  // namespace troupe
