#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

class Graph;
struct PipelineOptions;

/// The memory that the actors of one process can use, part by part.
struct MemoryBound {
  struct Part {
    std::string what;
    std::size_t bytes = 0;
  };
  std::vector<Part> parts;
  std::size_t total() const;
};

/// Of the graph that build_pipeline has made of these options, which need a profile.
/// `dataset_bytes` are in every process. A pure function; throws nothing of its own.
MemoryBound memory_bound(const PipelineOptions& options, const Graph& graph,
                         std::size_t dataset_bytes, std::uint32_t process = 0);

}  // namespace troupe
