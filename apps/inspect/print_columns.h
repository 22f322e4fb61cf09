#pragma once
#include <string>
#include <vector>

namespace troupe {

/// Prints rows of texts on stdout, each column as wide as its longest text. A column of whole
/// numbers below its heading, the first row, is aligned at the right. Texts may be from files: they
/// are made printable (runtime/text.h).
void print_columns(std::vector<std::vector<std::string>> rows);

}  // namespace troupe
