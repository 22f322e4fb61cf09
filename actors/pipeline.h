#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/checkpoint_writer.h"
#include "actors/loader.h"
#include "actors/monitor.h"
#include "actors/profile.h"
#include "actors/schedule.h"
#include "actors/stage.h"
#include "runtime/flow/graph.h"

namespace troupe {

/// A training run as a pipeline of stages times replicas.
struct PipelineOptions {
  ModelOptions model;
  DType dtype = DType::f32;
  Stream stream;  ///< of every stage
  std::uint64_t seed = 1;
  std::vector<std::size_t> cut{SIZE_MAX};  ///< blocks of each stage
  std::uint32_t replicas = 1;
  std::uint32_t micro_batches = 1;  ///< of a step, over all replicas
  ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  RateOptions rate;
  SgdOptions sgd;
  LoaderOptions loader;           ///< `replica` is set for each
  std::vector<StatePtr> initial;  ///< by stage; empty: drawn from the seed
  MonitorOptions monitor;
  std::optional<CheckpointWriterOptions> writer;
  std::vector<BlockProfile> profile;  ///< for the sizes of slots; empty: not known
  /// Puts something around a stage's arithmetic, to time, slow or check it; empty: nothing.
  std::function<ProgramFactory(std::size_t stage, ProgramFactory)> around;
};

/// Wires loaders, stages, losses, reducers, monitor and writer. Actors are called "loader",
/// "stage/0", "loss", "reducer/0", "monitor", "writer"; with several replicas "stage/0/1" is
/// replica 1 of stage 0.
Graph build_pipeline(const PipelineOptions& options);

/// Name of a replica's actor: "stage/0", or "stage/0/1" when there are several replicas.
std::string replica_name(const std::string& base, std::uint32_t replica, std::uint32_t replicas);

/// The memory that a run of this pipeline can use, part by part; needs the profile.
struct MemoryBound {
  struct Part {
    std::string what;
    std::size_t bytes = 0;
  };
  std::vector<Part> parts;
  std::size_t total() const;
};
MemoryBound memory_bound(const PipelineOptions& options, const Graph& graph,
                         std::size_t dataset_bytes);

}  // namespace troupe
