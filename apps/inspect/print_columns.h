#pragma once
#include <string>
#include <vector>

namespace troupe {

/// Prints rows of texts on stdout, each column as wide as its longest text. Texts may be from
/// files: they are made printable (runtime/text.h).
void print_columns(std::vector<std::vector<std::string>> rows);

}  // namespace troupe
