#pragma once
// A training run in a world that a launcher has started: the agreement of its processes before the
// run, and the selection of the process that reports an error.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/options/options.h"
#include "runtime/remote/joined_world.h"

namespace troupe {

/// The decisions of rank 0 for all processes.
struct Agreement {
  std::vector<std::size_t> partition;  ///< blocks of each stage; measured by rank 0 alone
  std::filesystem::path output;        ///< absolute
  std::filesystem::path checkpoint;    ///< to resume from, absolute; empty: step 0
  std::filesystem::path weights;       ///< to start from, absolute; empty: random
  bool evaluates_first = false;        ///< as in PipelineOptions
  bool nothing_to_do = false;          ///< all steps are done, and the test set is evaluated
  std::string processor;               ///< of rank 0 (Backend::fingerprint)
};

/// Throws Error{bad_options} where the world has more processes than the options have stages for.
void check_fits(const World& world, const Options& options);

/// Ends a process whose error another process prints. Returns the exit code.
int end_silently(const Error& error, const Definitions& own);

/// This process among those of the run.
class WorldRun {
 public:
  /// As JoinedWorld::join. Throws peer_lost where processes are missing and another one reports it.
  WorldRun(const World& world, const Environment& environment, const Options& options,
           std::stop_token stop);

  std::uint32_t process() const { return world_->process(); }
  std::uint32_t processes() const { return world_->processes(); }
  bool leads() const { return world_->leads(); }

  /// Rank 0 decides and sends its decision to the others. `options` is the resolved text of this
  /// process's options; Error{bad_options} unless it is the same in all processes. The other
  /// processes throw what rank 0 throws.
  Agreement agree(const std::string& options, const std::function<Agreement()>& decide);

  void connect(const Graph& graph, RunOptions& run);
  std::string heading() const { return world_->heading(); }
  Member& member() { return world_->member(); }
  void leave() { world_->leave(); }

  /// Ends this process with an error, which one process of the run prints: the first that claims
  /// the report. Rank 0 holds the claim from the agreement on; another process prints when rank 0
  /// is lost. The other processes end without output, and so does a process that was declared lost
  /// (after SIGSTOP). A process prints at once if no other process can learn of its error: if it
  /// cannot reach the store, and between the agreement and connect(), while processes other than
  /// rank 0 work alone. No process waits longer than parallel.timeout. Returns the exit code.
  int end_with(const Error& error);

 private:
  void check_same_options(const std::string& options);
  Agreement receive_agreement();
  void publish(const Error& error);
  Result<std::string> claim_report();
  int report(const Error& error);

  Definitions own_;
  std::chrono::milliseconds timeout_;
  std::unique_ptr<JoinedWorld> world_;
  bool works_alone_ = false;  ///< between the agreement and connect(), unless it leads
};

}  // namespace troupe
