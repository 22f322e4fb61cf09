#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ops/graph/graph.h"

namespace troupe::graph {

/// Reads the model in a file that PyTorch has exported: .pt2 or ONNX, by its content. Throws
/// Error{bad_file} for other files, with the line of Python that exports a model; io.
Graph read_graph(const std::filesystem::path& path);

/// Whether the file is one that read_graph reads, by its beginning and its directory. Throws
/// Error{io} if there is no such file.
bool holds_graph(const std::filesystem::path& path);

/// A text that is the same for graphs with the same operators, shapes, names of parameters and
/// names of random numbers (dropout_paths), and the same constants that have no key in the
/// state_dict (literals). The values of other tensors do not matter: files of weights have them.
/// 64 hexadecimal digits, of which the last ones are of the values of literals alone.
std::string digest(const Graph& graph);
/// The digits before those of the literals.
std::string_view operators_in(std::string_view digest);
/// The names of the literals.
std::vector<std::string> literals(const Graph& graph);

}  // namespace troupe::graph
