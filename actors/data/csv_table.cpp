#include "actors/data/csv_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>

#include "actors/data/array_dataset.h"
#include "actors/data/hold_out.h"
#include "runtime/error.h"
#include "runtime/file/file.h"
#include "runtime/text.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// The value of a cell that is a finite number and nothing else.
template <class T>
std::optional<T> number_in(std::string_view cell) {
  if (cell.size() > 1 && cell[0] == '+' && cell[1] != '-') cell.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (end != cell.data() + cell.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>)  // one that is too near to zero counts as zero
    if (error == std::errc::result_out_of_range &&
        std::abs(std::strtod(std::string(cell).c_str(), nullptr)) < 1)
      return T{};
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}
std::optional<float> float_in(std::string_view cell) {
  const auto value = number_in<double>(cell);
  if (!value || !std::isfinite(static_cast<float>(*value))) return std::nullopt;
  return static_cast<float>(*value);
}
/// A class by its number.
std::optional<std::int64_t> class_in(std::string_view cell) {
  const auto value = number_in<std::int64_t>(cell);
  return value && *value >= 0 ? value : std::nullopt;
}

bool is_float(std::string_view cell) { return float_in(cell).has_value(); }
bool is_class(std::string_view cell) { return class_in(cell).has_value(); }

std::string_view trimmed(std::string_view text, const char* blanks = " \t") {
  const auto begin = text.find_first_not_of(blanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

/// A table in a mapped file. Views are of the file.
class Table {
 public:
  Table(const fs::path& path, const std::vector<std::string>& targets)
      : file_(MappedFile::open(path)), name_(path.string()) {
    const auto bytes = file_->bytes();
    rest_ = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);  // a byte order mark
    read_header(targets);
    while (!rest_.empty()) read_row();
    if (rows_ == 0) fail("has no rows below its first one, which names the columns", "add samples");
  }

  const std::string& name() const { return name_; }
  const std::vector<std::string>& feature_names() const { return feature_names_; }
  std::int64_t rows() const { return rows_; }
  /// The cells of the target columns, row by row.
  const std::vector<std::string_view>& targets() const { return targets_; }
  const std::vector<std::string>& target_names() const { return target_names_; }
  std::size_t target_columns() const { return target_names_.size(); }

  Tensor features() const {
    const auto count = static_cast<std::int64_t>(feature_names_.size());
    return Tensor::from<float>(Shape{rows_, count}, features_);
  }
  [[noreturn]] void refuse_target(std::size_t cell, const std::string& remedy) const {
    refuse_cell(lines_[cell / target_columns()], target_names_[cell % target_columns()],
                targets_[cell], remedy);
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& remedy) const {
    throw Error(ErrorCode::bad_file, fmt::format("{} {}", name_, what), remedy);
  }
  [[noreturn]] void fail_in_line(const std::string& what, const std::string& remedy) const {
    throw Error(ErrorCode::bad_file, fmt::format("{}:{}: {}", name_, line_, what), remedy);
  }
  [[noreturn]] void refuse_cell(std::int64_t line, const std::string& column, std::string_view cell,
                                const std::string& remedy) const {
    throw Error(
        ErrorCode::bad_file,
        fmt::format("{}:{}: the cell '{}' of the column {} is {}", name_, line, printable(cell, 40),
                    printable(column), cell.empty() ? "empty" : "not a finite number"),
        remedy);
  }

  /// What is left of a line; behind the last cell there is nothing, not even an empty one.
  struct Line {
    std::string_view rest;
    bool has_cells = true;
  };

  std::string_view take_line() {
    const auto end = std::min(rest_.find('\n'), rest_.size());
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }
  /// Takes a cell and the comma behind it.
  std::string_view take_cell(Line& line) const {
    std::size_t end = 0;
    std::string_view cell;
    const std::string_view rest = line.rest;
    if (rest.starts_with('"')) {
      const auto quote = rest.find('"', 1);
      if (quote == rest.npos || (quote + 1 < rest.size() && rest[quote + 1] != ','))
        fail_in_line("a quote does not end a cell", "remove quotes and line ends from cells");
      cell = rest.substr(1, quote - 1);
      end = quote + 1;
    } else {
      end = std::min(rest.find(','), rest.size());
      cell = trimmed(rest.substr(0, end));
    }
    line.has_cells = end < rest.size();
    line.rest.remove_prefix(std::min(end + 1, rest.size()));
    return cell;
  }

  /// UTF-16 has a byte order mark or zeros. Column names must not move a terminal's cursor either.
  void check_that_it_is_text(std::string_view first_row) const {
    const bool marked = first_row.starts_with("\xff\xfe") || first_row.starts_with("\xfe\xff");
    if (marked || first_row.find('\0') != first_row.npos)
      fail("is UTF-16 or not text", "save it as CSV in UTF-8");
    if (first_row.find('\r') != first_row.npos)
      fail("has lines that end in CR alone, as on old Macintoshes", "save it with LF as line ends");
    for (const char character : first_row)
      if (character != '\t' && is_control(static_cast<unsigned char>(character)))
        fail(fmt::format("has the control character {:#04x} in its first row", character),
             "remove it: the first row names the columns");
  }

  /// A first row in which all cells but those of the targets are numbers is a row of samples.
  void check_that_it_names_columns(const std::vector<std::string>& names,
                                   std::size_t targets) const {
    for (const auto& [separator, word] : {std::pair(';', ";"), std::pair('\t', "tabs")})
      if (names.size() == 1 && names[0].find(separator) != std::string::npos)
        fail(fmt::format("has one column, '{}'", printable(names[0], 40)),
             fmt::format("separate cells by commas, not by {}", word));
    const auto numbers = static_cast<std::size_t>(std::ranges::count_if(names, is_float));
    if (numbers == 0 || numbers + targets < names.size()) return;
    const std::string first = printable(names.front(), 40), last = printable(names.back(), 40);
    fail(fmt::format("has a first row that looks like data ({}{}{})", first,
                     names.size() > 2   ? ", …, "
                     : names.size() > 1 ? ", "
                                        : "",
                     names.size() > 1 ? last : ""),
         "insert a row that names the columns");
  }

  void read_header(const std::vector<std::string>& wanted) {
    if (trimmed(rest_, " \t\r\n").empty())
      fail("is empty", "give a file with a row of column names and rows of samples");
    Line line{take_line()};
    check_that_it_is_text(line.rest);
    std::vector<std::string> names;
    while (line.has_cells) names.emplace_back(take_cell(line));
    check_that_it_names_columns(names, std::max<std::size_t>(wanted.size(), 1));
    std::set<std::string_view> different;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i].empty() || !different.insert(names[i]).second)
        fail(fmt::format("names its column {} '{}'", i + 1, printable(names[i], 40)),
             "give each column a name of its own in the first row");
    const std::vector<std::string_view> known(names.begin(), names.end());
    for (const std::string& target : wanted)
      if (!different.contains(target))
        throw Error(
            ErrorCode::bad_options,
            fmt::format("`Dataset::target` names {}, which {} does not have", target, name_),
            printable(
                did_you_mean(target, known, fmt::format("name one of {}", fmt::join(known, ", "))),
                200));
    for (const std::string& name : names) {
      const bool is_target =
          wanted.empty() ? &name == &names.back() : std::ranges::count(wanted, name) > 0;
      is_target_.push_back(is_target);
      (is_target ? target_names_ : feature_names_).push_back(name);
    }
    if (feature_names_.empty()) fail("has no columns but the targets", "add columns of features");
  }

  void read_row() {
    Line line{take_line()};
    if (trimmed(line.rest).empty()) return;
    std::size_t column = 0, feature = 0;
    for (; line.has_cells && column < is_target_.size(); ++column) {
      const std::string_view cell = take_cell(line);
      if (is_target_[column]) {
        targets_.push_back(cell);
        continue;
      }
      const std::optional<float> value = float_in(cell);
      if (!value)
        refuse_cell(line_, feature_names_[feature], cell,
                    "give it a number, or remove the row or the column; only targets "
                    "(`Dataset::target`) may be texts");
      features_.push_back(*value);
      ++feature;
    }
    for (; line.has_cells; ++column) (void)take_cell(line);
    if (column != is_target_.size())
      fail_in_line(fmt::format("{}, but the first row names {}",
                               counted(static_cast<std::int64_t>(column), "cell"),
                               counted(std::ssize(is_target_), "column")),
                   "give each row a cell for each column");
    lines_.push_back(line_);
    ++rows_;
  }

  std::shared_ptr<const MappedFile> file_;
  std::string name_;
  std::string_view rest_;
  std::int64_t line_ = 0, rows_ = 0;
  std::vector<bool> is_target_;  // by column
  std::vector<std::string> feature_names_, target_names_;
  std::vector<float> features_;
  std::vector<std::string_view> targets_;
  std::vector<std::int64_t> lines_;  // of each row
};

Tensor numbers_of(const Table& table) {
  std::vector<float> values;
  for (std::size_t i = 0; i < table.targets().size(); ++i) {
    const std::optional<float> value = float_in(table.targets()[i]);
    if (!value)
      table.refuse_target(i,
                          "give it a number, remove the row, or set `Dataset::targets` to classes");
    values.push_back(*value);
  }
  const auto columns = static_cast<std::int64_t>(table.target_columns());
  return Tensor::from<float>(columns == 1 ? Shape{table.rows()} : Shape{table.rows(), columns},
                             values);
}

/// `names` are sorted; empty: classes are numbers.
Tensor classes_of(const Table& table, const std::vector<std::string_view>& names) {
  std::vector<std::int64_t> classes;
  for (std::size_t i = 0; i < table.targets().size(); ++i) {
    const std::string_view cell = table.targets()[i];
    if (cell.empty()) table.refuse_target(i, "give it a class, or remove the row");
    if (names.empty()) {
      const std::optional<std::int64_t> number = class_in(cell);
      if (!number) table.refuse_target(i, "number all classes from 0");
      classes.push_back(*number);
    } else {
      classes.push_back(std::ranges::lower_bound(names, cell) - names.begin());
    }
  }
  return Tensor::from<std::int64_t>(Shape{table.rows()}, classes);
}

TargetKind kind_of(const Table& table, TargetKind wanted) {
  if (table.target_columns() > 1 && wanted == TargetKind::classes)
    throw Error(ErrorCode::bad_options,
                fmt::format("`Dataset::targets` is classes, but `Dataset::target` names {} columns",
                            table.target_columns()),
                "name one column");
  if (wanted != TargetKind::automatic) return wanted;
  if (table.target_columns() > 1) return TargetKind::numbers;
  const bool whole = std::ranges::all_of(table.targets(), is_class);
  const bool texts = std::ranges::none_of(table.targets(), is_float);
  return whole || texts ? TargetKind::classes : TargetKind::numbers;
}

/// The names of classes in all tables, sorted; empty where they are numbers.
std::vector<std::string_view> names_in(const std::vector<const Table*>& tables) {
  std::vector<std::string_view> names;
  bool numbers = true;
  for (const Table* table : tables) {
    numbers = numbers && std::ranges::all_of(table->targets(), is_class);
    names.insert(names.end(), table->targets().begin(), table->targets().end());
  }
  if (numbers) return {};
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

OptionFields CsvTable::options() {
  return {
      field("data.path", path,
            "a CSV file, or the folder of train.csv and test.csv; the first row names the "
            "columns; cells are separated by commas",
            {.setting = "Dataset::path"}),
      field("data.target", target,
            "names of the target columns; empty: the last. All other columns are features: remove "
            "ids. Features and targets are not normalised",
            {.synonyms = {"label", "label_column"}, .setting = "Dataset::target"}),
      choice_field(
          "data.targets", targets, target_kind_names,
          "what the targets are; auto: classes for a column of whole numbers or of "
          "texts, else numbers. For regression on whole numbers, write numbers. Classes that "
          "are texts are numbered in sorted order",
          {.setting = "Dataset::targets"}),
      test_fraction_option(test_fraction)};
}

std::shared_ptr<const SampleReader> CsvTable::open(const DatasetOptions& options) const {
  std::error_code ignored;
  if (path.empty() || !fs::exists(path, ignored))
    throw Error(path.empty() ? ErrorCode::io : ErrorCode::bad_options,
                path.empty()
                    ? "csv has no `Dataset::path`"
                    : fmt::format("`Dataset::path` is {}, which does not exist", path.string()),
                "set `Dataset::path` to a CSV file, or to the folder of train.csv and test.csv");
  const bool folder = fs::is_directory(path, ignored);
  if (folder && !fs::exists(path / "train.csv", ignored))
    throw Error(ErrorCode::io,
                fmt::format("`Dataset::path` is {}, which has no train.csv", path.string()),
                "set `Dataset::path` to a CSV file, or to the folder of train.csv and test.csv");
  const Table train(folder ? path / "train.csv" : path, target);
  std::vector<const Table*> tables{&train};
  std::optional<Table> test;
  if (folder && fs::exists(path / "test.csv", ignored)) {
    tables.push_back(&test.emplace(path / "test.csv", target));
    if (test->feature_names() != train.feature_names() ||
        test->target_names() != train.target_names())
      throw Error(ErrorCode::bad_file,
                  fmt::format("{} has other columns than {}", test->name(), train.name()),
                  "give both the same columns in the same order");
  }
  const TargetKind kind = kind_of(train, targets);
  const auto names =
      kind == TargetKind::classes ? names_in(tables) : std::vector<std::string_view>{};
  const auto part_of = [&](const Table& table) {
    return ArrayPart{table.features(),
                     kind == TargetKind::numbers ? numbers_of(table) : classes_of(table, names),
                     table.name(), table.name()};
  };
  return array_dataset(name, part_of(train), test ? std::optional(part_of(*test)) : std::nullopt,
                       test_fraction, options,
                       {.columns = train.target_names(), .classes = {names.begin(), names.end()}});
}

}  // namespace troupe
