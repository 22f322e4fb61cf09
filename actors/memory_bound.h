#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

class Graph;
struct PipelineOptions;

/// An upper bound of the memory of one process, by part.
struct MemoryBound {
  /// The memory that a part takes.
  enum class Place : std::uint8_t {
    cpu,
    device,  ///< of what computes, where that is not the CPU (PipelineOptions::stream)
  };
  struct Part {
    std::string what;
    std::size_t bytes = 0;
    Place place = Place::cpu;
  };
  std::vector<Part> parts;
  std::size_t total() const;             ///< of both places
  std::size_t total(Place place) const;  ///< 0 of a device where the CPU computes
};

/// The bound for the graph that build_pipeline creates from these options, which must contain block
/// costs. Every process holds the `dataset_bytes` of the data set (Dataset::bytes_in_memory). A
/// device holds what stages, losses and reducers use, resident images and the samples sent to it.
/// The CPU's memory holds everything else, pinned memory included, and PipelineOptions::initial if
/// it is set. A device's own needs (a context, libraries) are not counted. A pure function.
MemoryBound memory_bound(const PipelineOptions& options, const Graph& graph,
                         std::size_t dataset_bytes, std::uint32_t process = 0);

}  // namespace troupe
