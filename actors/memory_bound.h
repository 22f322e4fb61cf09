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
  struct Part {
    std::string what;
    std::size_t bytes = 0;
  };
  std::vector<Part> parts;
  std::size_t total() const;
};

/// The bound for the graph that build_pipeline creates from these options, which must contain block
/// costs. Every process holds the `dataset_bytes` of the data set (Dataset::bytes_in_memory). A
/// pure function.
MemoryBound memory_bound(const PipelineOptions& options, const Graph& graph,
                         std::size_t dataset_bytes, std::uint32_t process = 0);

}  // namespace troupe
