#include "apps/output/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/error.h"
#include "runtime/file/file.h"

namespace troupe {
namespace {

constexpr std::string_view head_of_steps =
                               "step,epoch,loss,accuracy,images_per_second,learning_rate",
                           head_of_time = ",training_seconds", head_of_scale = ",loss_scale",
                           head_of_skipped = ",skipped_steps",
                           head_of_gpu = ",gpu_utilisation_percent,gpu_memory_mib,gpu_power_w",
                           head_of_tests = ",test_loss,test_accuracy,test_correct,test_count\n";

constexpr std::size_t test_columns = 4;  // the last ones
constexpr std::size_t step_columns = 6, most_columns_between = 6;
constexpr std::size_t time_column = step_columns;  // files of former versions have none
constexpr std::size_t scale_columns = 1, skipped_columns = 1, gpu_columns = 3;

constexpr std::string_view no_evaluation = ",,,\n";  // test columns, from the first one's value

/// Rows begin with their step; the row of names does not begin with a number.
std::optional<std::int64_t> step_of(const std::string& line) {
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
  return error == std::errc{} ? std::optional(step) : std::nullopt;
}

bool has(const std::string& head, std::string_view names) {
  return head.find(names) != std::string::npos;
}

CsvColumns columns_in(const std::string& head) {
  return {.loss_scale = has(head, head_of_scale),
          .skipped_steps = has(head, head_of_skipped),
          .gpu = has(head, head_of_gpu)};
}

/// Adds the wanted columns that a file with this row of names lacks.
class AddedColumns {
 public:
  AddedColumns(const std::string& head, const CsvColumns& wanted)
      : there_(columns_in(head)),
        wanted_(wanted),
        first_(has(head, head_of_time) ? time_column + 1 : step_columns),
        applies_(head.starts_with(head_of_steps)) {}

  /// Returns whether the line has changed.
  bool add_to(std::string& line) const {
    if (!applies_) return false;
    const bool is_row = step_of(line).has_value();
    const std::size_t before = line.size();
    std::size_t column = first_;
    const auto add = [&](bool there, bool wanted, std::string_view names, std::size_t count) {
      if (wanted && !there)
        line.insert(end_of(line, column), is_row ? std::string(count, ',') : std::string(names));
      if (wanted || there) column += count;
    };
    add(there_.loss_scale, wanted_.loss_scale, head_of_scale, scale_columns);
    add(there_.skipped_steps, wanted_.skipped_steps, head_of_skipped, skipped_columns);
    add(there_.gpu, wanted_.gpu, head_of_gpu, gpu_columns);
    return line.size() != before;
  }

 private:
  /// Where the first `columns` cells of a line end.
  static std::size_t end_of(const std::string& line, std::size_t columns) {
    std::size_t end = 0;
    for (std::size_t column = 0; column < columns && end < line.size(); ++column)
      end = std::min(line.find(',', column == 0 ? 0 : end + 1), line.size());
    return end;
  }

  CsvColumns there_, wanted_;
  std::size_t first_;
  bool applies_;
};

/// Prepares the file of a resumed run: without rows of later steps, with the wanted columns.
/// Returns its path.
const std::filesystem::path& prepared(const std::filesystem::path& path,
                                      std::optional<std::int64_t> steps, const CsvColumns& wanted) {
  if (!steps) return path;
  std::ifstream old(path);
  std::string kept, line;
  bool changed = false;
  std::optional<AddedColumns> added;
  while (std::getline(old, line)) {
    if (!added) added.emplace(line, wanted);
    const auto step = step_of(line);
    if (old.eof() || (step && *step > *steps)) {  // at the end of the file: a row without its end
      changed = true;
    } else {
      changed = added->add_to(line) || changed;
      kept += line + "\n";
    }
  }
  if (!changed) return path;
  const Status written = write_file(path, std::as_bytes(std::span(kept)));
  if (!written) throw written.error();
  return path;
}

/// Whether a row has empty test columns.
bool is_unfilled(const std::string& row) { return row.ends_with(",,,,"); }

std::vector<std::string> values_of(const std::string& row) {
  std::vector<std::string> values;
  std::istringstream rest(row);
  for (std::string value; std::getline(rest, value, ',');) values.push_back(value);
  return values;
}

/// What the test columns of a row say.
std::optional<Evaluation> evaluation_of(const std::string& row) {
  const std::vector<std::string> values = values_of(row);
  if (values.size() < test_columns) return std::nullopt;
  const std::size_t first = values.size() - test_columns;
  Evaluation result;
  const auto read = [&](std::size_t column, auto& number) {
    const std::string& text = values[column];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size();
  };
  const bool whole = first >= step_columns && first <= step_columns + most_columns_between;
  if (!whole || !read(0, result.step) || !read(first, result.loss) ||
      !read(first + 3, result.count))
    return std::nullopt;
  std::int64_t correct = 0;
  const bool has_accuracy = !values[first + 2].empty();
  if (has_accuracy && !read(first + 2, correct)) return std::nullopt;
  result.correct = has_accuracy ? std::optional(correct) : std::nullopt;
  return result;
}

/// What a row says of the training loss.
std::optional<RowLoss> loss_of(const std::string& row) {
  const std::vector<std::string> values = values_of(row);
  const auto step = step_of(row);
  if (!step || values.size() < step_columns) return std::nullopt;
  RowLoss result{.step = *step};
  const std::string& text = values[2];
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result.loss);
  return error == std::errc{} ? std::optional(result) : std::nullopt;
}

/// The training time in a row; 0 if it has none.
double seconds_of(const std::string& row) {
  const std::vector<std::string> values = values_of(row);
  double seconds = 0;
  if (values.size() <= time_column) return seconds;
  const std::string& text = values[time_column];
  (void)std::from_chars(text.data(), text.data() + text.size(), seconds);
  return seconds;
}

/// Empty for a loss without accuracy.
std::string accuracy_cell(std::optional<double> accuracy) {
  return accuracy ? fmt::format("{:.6g}", *accuracy) : "";
}

/// With a comma before each.
std::string gpu_cells(const GpuUsage& gpu) {
  const auto cell = [](const std::optional<double>& value) {
    return value ? fmt::format(",{:.6g}", *value) : ",";
  };
  return cell(gpu.utilisation_percent) + cell(gpu.memory_mib) + cell(gpu.power_w);
}

/// The row of names and the last line.
struct Ends {
  std::string first, last;
};

Ends ends_of(const std::filesystem::path& path) {
  Ends ends;
  std::ifstream file(path);
  std::getline(file, ends.first);
  for (std::string line; std::getline(file, line);) ends.last = line;
  return ends;
}

}  // namespace

bool lacks_evaluation(const std::filesystem::path& path, std::int64_t step) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (step_of(line) == step) return is_unfilled(line);
  return false;
}

std::vector<Evaluation> evaluations_until(const std::filesystem::path& path, std::int64_t step) {
  std::vector<Evaluation> found;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (const auto evaluation = evaluation_of(line); evaluation && evaluation->step <= step)
      found.push_back(*evaluation);
  return found;
}

std::vector<RowLoss> row_losses(const std::filesystem::path& path) {
  std::vector<RowLoss> found;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (const auto loss = loss_of(line)) found.push_back(*loss);
  return found;
}

TrainCsv::TrainCsv(const std::filesystem::path& path, std::optional<std::int64_t> steps_done,
                   const CsvColumns& columns)
    : file_(prepared(path, steps_done, columns)), columns_(columns) {
  const bool fresh = file_.size() == 0 && std::filesystem::is_regular_file(path);
  if (fresh && !file_.append(fmt::format("{}{}{}{}{}{}", head_of_steps, head_of_time,
                                         columns_.loss_scale ? head_of_scale : "",
                                         columns_.skipped_steps ? head_of_skipped : "",
                                         columns_.gpu ? head_of_gpu : "", head_of_tests)))
    throw Error(ErrorCode::io,
                fmt::format("{} cannot be written: {}", path.string(), std::strerror(errno)),
                "check permissions and free space of the output folder");
  if (fresh || file_.size() == 0) return;  // a device may have no end
  const Ends ends = ends_of(path);
  has_time_ = has(ends.first, head_of_time);
  columns_ = columns_in(ends.first);
  if (!step_of(ends.last)) return;
  if (is_unfilled(ends.last)) test_columns_ = file_.size() - std::ssize(no_evaluation);
  if (has_time_) seconds_before_ = seconds_of(ends.last);
}

bool TrainCsv::add(const StepReport& step) {
  const std::string time =
      has_time_ ? fmt::format(",{:.3f}", seconds_before_ + step.training_time.count()) : "";
  std::string scaling;
  if (columns_.loss_scale) scaling = step.loss_scale ? fmt::format(",{}", *step.loss_scale) : ",";
  if (columns_.skipped_steps)
    scaling += step.loss_scale ? fmt::format(",{}", step.skipped_steps) : ",";
  const std::string row =
      fmt::format("{},{},{:.9g},{},{:.6g},{:.9g}{}{}{},{}", step.step, step.epoch, step.loss,
                  accuracy_cell(step.accuracy), step.images_per_second, step.lr, time, scaling,
                  columns_.gpu ? gpu_cells(step.gpu) : "", no_evaluation);
  const bool written = file_.append(row);
  test_columns_ = written ? file_.size() - std::ssize(no_evaluation) : -1;
  return written;
}

bool TrainCsv::fill(const Evaluation& evaluation) {
  if (test_columns_ < 0) return false;
  return file_.replace_end(
      std::exchange(test_columns_, -1),
      fmt::format("{},{},{},{}\n", evaluation.loss, accuracy_cell(evaluation.accuracy()),
                  evaluation.correct ? fmt::format("{}", *evaluation.correct) : "",
                  evaluation.count));
}

}  // namespace troupe
