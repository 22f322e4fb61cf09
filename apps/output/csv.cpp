#include "apps/output/csv.h"

#include <fmt/format.h>

#include <charconv>
#include <span>
#include <string>

#include "runtime/error.h"
#include "runtime/file/file.h"

namespace troupe {
namespace {

constexpr std::string_view head =
    "step,epoch,loss,accuracy,images_per_second,learning_rate,test_loss,test_accuracy,"
    "test_correct,test_count\n"
    ",,nats,,1/s,,nats,,,\n";

constexpr std::string_view no_evaluation = ",,,\n";  // test columns, from the first one's value

/// Rows begin with their step; the two rows of names and units do not begin with a number.
std::optional<std::int64_t> step_of(const std::string& line) {
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
  return error == std::errc{} ? std::optional(step) : std::nullopt;
}

void drop_rows_after(const std::filesystem::path& path, std::int64_t steps) {
  std::ifstream old(path);
  std::string kept, line;
  bool dropped = false;
  while (std::getline(old, line)) {
    if (const auto step = step_of(line); step && *step > steps) {
      dropped = true;
    } else {
      kept += line + "\n";
    }
  }
  if (!dropped) return;
  const Status written = write_file(path, std::as_bytes(std::span(kept)));
  if (!written) throw written.error();
}

/// With what no_evaluation leaves of a row, behind the comma of the column before.
bool is_unfilled(const std::string& row) { return row.ends_with(",,,,"); }

/// Where the test columns of the last row begin, if they are empty.
std::fstream::off_type unfilled_columns(const std::filesystem::path& path) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return -1;  // a device may have no end
  std::ifstream file(path);
  std::string line, last;
  while (std::getline(file, line)) last = line;
  const auto size = std::filesystem::file_size(path, failed);
  if (failed || !step_of(last) || !is_unfilled(last)) return -1;
  return static_cast<std::fstream::off_type>(size - no_evaluation.size());
}

}  // namespace

bool lacks_evaluation(const std::filesystem::path& path, std::int64_t step) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (step_of(line) == step) return is_unfilled(line);
  return false;
}

TrainCsv::TrainCsv(const std::filesystem::path& path, std::optional<std::int64_t> steps_done) {
  if (steps_done) drop_rows_after(path, *steps_done);
  std::error_code ignored;
  const bool fresh =
      !std::filesystem::exists(path, ignored) || std::filesystem::file_size(path, ignored) == 0;
  std::ofstream(path, std::ios::app);  // makes it
  file_.open(path, std::ios::in | std::ios::out | std::ios::ate);
  if (fresh) file_ << head << std::flush;
  test_columns_ = unfilled_columns(path);
  if (!file_)
    throw Error(ErrorCode::io, fmt::format("{}: cannot be written", path.string()),
                "check permissions and free space of the output folder");
}

bool TrainCsv::add(const StepReport& step) {
  file_.clear();
  file_.seekp(0, std::ios::end);
  file_ << fmt::format("{},{},{:.9g},{:.6g},{:.6g},{:.9g},", step.step, step.epoch, step.loss,
                       step.accuracy, step.images_per_second, step.lr);
  test_columns_ = file_.tellp();
  file_ << no_evaluation << std::flush;
  if (!file_) test_columns_ = -1;
  return static_cast<bool>(file_);
}

bool TrainCsv::fill(const EvaluationReport& evaluation) {
  if (test_columns_ < 0) return false;
  file_.clear();
  file_.seekp(test_columns_);
  test_columns_ = -1;
  file_ << fmt::format("{:.9g},{:.6g},{},{}\n", evaluation.loss, evaluation.accuracy(),
                       evaluation.correct, evaluation.count)
        << std::flush;
  return static_cast<bool>(file_);
}

}  // namespace troupe
