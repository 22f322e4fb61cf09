#pragma once
// The values that `troupe plan` prints, and the functions that print them.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/memory_bound.h"
#include "actors/pipeline.h"
#include "apps/plan/planned_gpu.h"
#include "runtime/transport/topology.h"

namespace troupe {

/// A pipeline as it would run: its graph, and the memory of its processes.
struct PlannedRun {
  const PipelineOptions& pipeline;
  const Graph& graph;
  std::vector<MemoryBound> bounds;  ///< by process
  int processes_per_host = 1;
  TransportTopology topology;
  std::optional<PlannedGpu> gpu;  ///< of each process; nothing: the CPU computes
  /// The bytes that the GPU needs for a batch of other sizes, with or without CUDA graphs.
  std::function<std::size_t(std::int64_t batch_size, std::int64_t micro_batches, bool graphs)>
      gpu_bytes;

  std::uint32_t processes() const { return static_cast<std::uint32_t>(bounds.size()); }
  /// Processes are numbered host by host.
  int host_of(std::uint32_t process) const {
    return static_cast<int>(process) / processes_per_host;
  }
};

/// Whether the plan is for a GPU that is not here, so that no time of it is known.
inline bool is_described(const PlannedRun& run) { return run.gpu && run.gpu->described; }

double milliseconds(std::chrono::nanoseconds time);

/// Prints the memory bound, of the CPU and of the GPU, and whether the second fits. False if not.
bool print_memory(const PlannedRun& run);

/// Prints the table of edges: slots, bytes of a slot, bytes of a step, and whether the bytes leave
/// the process or the host.
void print_edges(const PlannedRun& run);

/// The simulated schedule of one step, as a picture and its figures.
void print_schedule(const PlannedRun& run);

}  // namespace troupe
