#pragma once
// Models that torch.onnx.export(…, optimize=False) has written (.onnx), opsets 18 to 23.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "ops/graph/graph.h"

namespace troupe::graph {

/// Reads a model with the weights that it was exported with; these stay in the mapped file, and in
/// a data file beside it, until they are read. Nodes that depend only on constants and shapes are
/// evaluated while reading. Operators that Troupe lacks are listed (Graph::lacking).
///
/// Throws Error: bad_file for damaged files and for data outside the file's folder; unsupported,
/// with the line of Python that exports a model for training, for files that were exported for
/// inference (batch norm folded away, names of parameters lost) or for a fixed batch; io.
/// Memory is bounded by the file's size and 512 MiB.
Graph read_onnx(const std::filesystem::path& path);

/// The same of bytes in memory, which the caller keeps; errors name them as `origin`. Data files
/// are looked for in `folder`.
Graph parse_onnx(std::span<const std::byte> bytes, const std::string& origin,
                 const std::filesystem::path& folder = {});

/// Whether these bytes begin as those of an ONNX model: with its version, and fields up to a graph.
bool looks_like_onnx(std::span<const std::byte> bytes);

}  // namespace troupe::graph
