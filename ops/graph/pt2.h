#pragma once
// Models that torch.export.save has written (.pt2).

#include <filesystem>
#include <span>
#include <string>

#include "ops/graph/graph.h"

namespace troupe::graph {

/// Reads a model with the weights that it was exported with; these stay in the mapped file until
/// they are read. Operators that Troupe lacks are listed (Graph::lacking). Throws Error{bad_file}
/// for files of another kind or schema, and damaged ones; io. Memory is bounded by the file's size.
Graph read_pt2(const std::filesystem::path& path);

/// The same of bytes in memory, which the caller keeps; errors name them as `origin`.
Graph parse_pt2(std::span<const std::byte> bytes, const std::string& origin);

}  // namespace troupe::graph
