#pragma once
// A training run in the world that a launcher has started: what its processes agree on before it,
// and how they reach each other.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/options.h"
#include "runtime/control/membership.h"
#include "runtime/flow/run.h"
#include "runtime/remote/bulk.h"
#include "runtime/world/world.h"

namespace troupe {

/// What rank 0 has decided for all.
struct Agreement {
  std::vector<std::int64_t> cut;     ///< blocks of each stage; measured by rank 0 alone
  std::filesystem::path output;      ///< absolute
  std::filesystem::path checkpoint;  ///< to go on from, absolute; empty: step 0
  bool evaluates_first = false;      ///< as in PipelineOptions
  bool nothing_to_do = false;        ///< rank 0 does alone what is left
};

/// An error that rank 0 tells the user: the others only end with its code.
class ToldByLead : public Error {
 public:
  using Error::Error;
};

/// How tensors shall travel between processes.
BulkOptions bulk_options(const Options& options);

/// Throws Error{bad_options} where the world has more processes than the options have work for;
/// names the line that fits.
void check_fits(const World& world, const Options& options);

/// This process among those of the run.
class WorldRun {
 public:
  /// Binds the process to its share of the cores and waits until all are here. Throws Error.
  static std::unique_ptr<WorldRun> enter(const World& world, const Environment& environment,
                                         const Options& options);
  ~WorldRun();

  std::uint32_t process() const { return static_cast<std::uint32_t>(world_.rank); }
  std::uint32_t processes() const { return static_cast<std::uint32_t>(world_.size); }
  bool leads() const { return world_.rank == 0; }

  /// Rank 0 decides, the others hear what. `options` is the resolved text of this process's
  /// options: Error{bad_options} where they are not the same for all. What rank 0 throws, the
  /// others throw as ToldByLead.
  Agreement agree(const std::string& options, const std::function<Agreement()>& decide);

  /// Connects the processes' bulk planes, and sets what `run` must know of them.
  void connect(const Graph& graph, RunOptions& run);

  /// "4 processes on 2 hosts, started by slurm".
  std::string heading() const;

  /// Says goodbye when all is done; without it the others take this process for lost.
  void leave();

 private:
  WorldRun(World world, BulkOptions bulk)
      : world_(std::move(world)), bulk_options_(std::move(bulk)) {}
  void check_same_options(const std::string& options);
  Agreement hear();

  World world_;
  BulkOptions bulk_options_;
  std::unique_ptr<Membership> membership_;
  std::shared_ptr<Bulk> bulk_;
};

}  // namespace troupe
