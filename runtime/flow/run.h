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

class Bridge;            // runtime/flow/bridge.h
class DeliveryDeferral;  // runtime/transport/delivery_deferral.h

/// Makes an actor throw once, at the first action that matches, to test recovery.
struct FaultOptions {
  std::string actor;  ///< "stage/1", or a prefix: "stage" matches "stage/0"
  std::uint32_t step = 0;
  std::uint32_t micro_batch = 0;
  std::string action;  ///< "F", "B", …; empty matches any
  Purpose purpose = Purpose::train;
};

/// A failure from which the run recovered.
struct FailureReport {
  std::string actor;
  std::string cause;
  std::vector<std::string> replaced;  ///< the actors that were replaced
  std::uint32_t incarnation = 0;
  std::uint32_t steps = 0;  ///< committed steps at that moment
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
  /// Ends the run at the next commit, with a snapshot; at once if the run has no steps.
  std::stop_token stop;
  std::function<void(const std::any&)> on_event;         ///< Actor::emit; called on actor threads
  std::function<void(const FailureReport&)> on_failure;  ///< called on an actor thread
  Scheduling scheduling = Scheduling::threads;
  std::uint64_t seed = 0;  ///< 0: first come, first served
  /// Under deterministic scheduling, called after each message: lets work outside of actors, such
  /// as a device's, go on. `idle`: no message is left. Returns whether anything went on.
  std::function<bool(bool idle)> outside = {};

  /// In a run over several processes (Graph::place) each calls `run` with the same graph and with
  /// options that differ only in `process`; `bridge` connects them.
  std::uint32_t process = 0;
  std::uint32_t processes = 1;
  std::shared_ptr<Bridge> bridge;
  DeliveryDeferral* deferral = nullptr;  ///< of the transports that the bridge uses

  /// How often the run checks its progress. After two checks without a vote, a warning names the
  /// votes that are missing. If no actor of a run of one process can go on, an error ends it.
  std::chrono::milliseconds between_checks = std::chrono::seconds(20);
};

/// Runs the graph until its steps are committed and no actor holds it open. First proves that it
/// cannot deadlock (find_deadlock). Blocks the calling thread, which does no work meanwhile (under
/// deterministic scheduling it does all the work).
///
/// Throws Error: bad_graph for a deadlock (also one that its proof missed, because firing_rules()
/// or slots are not as the actors behave) or a port without an edge, actor_failed if a restart
/// budget is spent, peer_lost if another process is lost. Processes that can reach process 0 throw
/// its error. If an actor fails after process 0 has ended the run, only process 0 throws.
RunReport run(const Graph& graph, const RunOptions& options);

}  // namespace troupe
