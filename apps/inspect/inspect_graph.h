#pragma once
#include <filesystem>

namespace troupe {

/// Prints a model that PyTorch has exported: input and output, blocks, operators, what Troupe
/// lacks, parameters. Throws Error as the file's reader; operators that Troupe lacks are no error.
void inspect_graph(const std::filesystem::path& path);

}  // namespace troupe
