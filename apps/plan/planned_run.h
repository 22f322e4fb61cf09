#pragma once
// The values that `troupe plan` prints, and the functions that print them.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/memory_bound.h"
#include "actors/pipeline.h"
#include "runtime/transport/topology.h"

namespace troupe {

/// A pipeline as it would run: its graph, and the memory of its processes.
struct PlannedRun {
  const PipelineOptions& pipeline;
  const Graph& graph;
  std::vector<MemoryBound> bounds;  ///< by process
  int processes_per_host = 1;
  TransportTopology topology;

  std::uint32_t processes() const { return static_cast<std::uint32_t>(bounds.size()); }
  /// Processes are numbered host by host.
  int host_of(std::uint32_t process) const {
    return static_cast<int>(process) / processes_per_host;
  }
};

/// "37.5 MiB": at most nine characters.
std::string bytes_text(std::size_t bytes);

double milliseconds(std::chrono::nanoseconds time);

/// Prints the table of edges: slots, bytes of a slot, bytes of a step, and whether the bytes leave
/// the process or the host.
void print_edges(const PlannedRun& run);

/// The simulated schedule of one step, as a picture and its figures.
void print_schedule(const PlannedRun& run);

}  // namespace troupe
