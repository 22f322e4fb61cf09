#include "apps/inspect/print_columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {

namespace {

bool is_number(const std::string& cell) {
  return !cell.empty() && cell.find_first_not_of("0123456789") == cell.npos;
}

}  // namespace

void print_columns(std::vector<std::vector<std::string>> rows) {
  std::vector<std::size_t> widths;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = printable(cell, cell.size());
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::vector<bool> of_numbers(widths.size(), rows.size() > 1);
  for (std::size_t r = 1; r < rows.size(); ++r)
    for (std::size_t i = 0; i < widths.size(); ++i)
      of_numbers[i] = of_numbers[i] && i < rows[r].size() && is_number(rows[r][i]);
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string_view gap = i + 1 < row.size() ? "  " : "";
      line += of_numbers[i] ? fmt::format("{:>{}}{}", row[i], widths[i], gap)
                            : fmt::format("{:<{}}{}", row[i], widths[i], gap);
    }
    print_out("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

}  // namespace troupe
