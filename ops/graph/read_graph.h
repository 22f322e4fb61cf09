#pragma once
#include <filesystem>
#include <string>

#include "ops/graph/graph.h"

namespace troupe::graph {

/// Reads the model in a file that PyTorch has exported: .pt2 or ONNX, by its content. Throws
/// Error{bad_file} for other files, with the line of Python that exports a model; io.
Graph read_graph(const std::filesystem::path& path);

/// Whether the file is one that read_graph reads, by its beginning and its directory. Throws
/// Error{io} if there is no such file.
bool holds_graph(const std::filesystem::path& path);

/// A text that is the same for graphs with the same operators, shapes, names of parameters and
/// names of random numbers (dropout_paths), whatever the values of the parameters are: 64
/// hexadecimal digits.
std::string digest(const Graph& graph);

}  // namespace troupe::graph
