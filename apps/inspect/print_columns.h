#pragma once
#include <string>
#include <vector>

namespace troupe {

/// Prints rows of texts on stdout, each column as wide as its longest text.
void print_columns(const std::vector<std::vector<std::string>>& rows);

}  // namespace troupe
