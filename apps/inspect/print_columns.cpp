#include "apps/inspect/print_columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {

void print_columns(std::vector<std::vector<std::string>> rows) {
  std::vector<std::size_t> widths;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = printable(cell, cell.size());
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += fmt::format("{:<{}}{}", row[i], widths[i], i + 1 < row.size() ? "  " : "");
    print_out("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

}  // namespace troupe
