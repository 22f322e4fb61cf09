#pragma once
#include <string>
#include <vector>

namespace troupe {

/// Prints rows of texts on stdout, each column as wide as its longest text. A column that is
/// whole numbers below the first row is aligned at the right. Texts may be from
/// files: they are made printable (runtime/text.h).
void print_columns(std::vector<std::vector<std::string>> rows);

}  // namespace troupe
