#pragma once
// A training run in the world that a launcher has started: what its processes agree on before it,
// and how they reach each other.

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

/// What rank 0 has decided for all.
struct Agreement {
  std::vector<std::int64_t> partition;  ///< blocks of each stage; measured by rank 0 alone
  std::filesystem::path output;         ///< absolute
  std::filesystem::path checkpoint;     ///< to go on from, absolute; empty: step 0
  std::filesystem::path weights;        ///< to begin with, absolute; empty: drawn
  bool evaluates_first = false;         ///< as in PipelineOptions
  bool nothing_to_do = false;           ///< all steps are made, and the test set is counted
  std::string processor;                ///< of rank 0 (ops/cpu/processor.h)
};

/// parallel.transport, interface and timeout.
TransportOptions transport_options(const Options& options);

/// Throws Error{bad_options} where the world has more processes than the options have work for;
/// names the line that fits.
void check_fits(const World& world, const Options& options);

/// The end by an error that another process tells: this one is not the first to fail. Returns the
/// exit code.
int end_in_silence(const Error& error);

/// This process among those of the run.
class WorldRun {
 public:
  /// As JoinedWorld::join; throws peer_lost where not all came, and another process is to tell so.
  WorldRun(const World& world, const Environment& environment, const Options& options,
           std::stop_token stop);

  std::uint32_t process() const { return world_->process(); }
  std::uint32_t processes() const { return world_->processes(); }
  bool leads() const { return world_->leads(); }

  /// Rank 0 decides, the others hear what. `options` is the resolved text of this process's
  /// options: Error{bad_options} where they are not the same for all. What rank 0 throws, the
  /// others throw too.
  Agreement agree(const std::string& options, const std::function<Agreement()>& decide);

  void connect(const Graph& graph, RunOptions& run) { world_->connect(graph, run); }
  std::string heading() const { return world_->heading(); }
  void leave() { world_->leave(); }

  /// The end by an error that other processes meet as well, or end because of: the first that comes
  /// here tells it, the others wait until it has, and say nothing. Rank 0 is the first from the
  /// agreement on, so they wait for it; but if it is lost, the next one tells, and who cannot ask
  /// does so at once. Who was itself lost for a while, as by SIGSTOP, says nothing: that is what
  /// the others tell. Nobody waits longer than parallel.timeout. Returns the exit code.
  int end_with(const Error& error);

  /// The end by an error that no other process knows of.
  int end_with_own(const Error& error);

 private:
  void check_same_options(const std::string& options);
  Agreement hear();
  void spread(const Error& error);
  Result<std::string> claim_the_word();

  std::chrono::milliseconds timeout_;
  std::unique_ptr<JoinedWorld> world_;
};

}  // namespace troupe
