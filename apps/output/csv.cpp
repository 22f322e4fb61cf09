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

// Rows begin with their step; the two rows of names and units do not begin with a number.
void drop_rows_after(const std::filesystem::path& path, std::int64_t steps) {
  std::ifstream old(path);
  std::string kept, line;
  bool dropped = false;
  while (std::getline(old, line)) {
    std::int64_t step = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
    if (error == std::errc{} && step > steps) {
      dropped = true;
    } else {
      kept += line + "\n";
    }
  }
  if (!dropped) return;
  const Status written = write_file(path, std::as_bytes(std::span(kept)));
  if (!written) throw written.error();
}

}  // namespace

TrainCsv::TrainCsv(const std::filesystem::path& path, std::optional<std::int64_t> steps_done) {
  if (steps_done) drop_rows_after(path, *steps_done);
  std::error_code ignored;
  const bool fresh =
      !std::filesystem::exists(path, ignored) || std::filesystem::file_size(path, ignored) == 0;
  file_.open(path, std::ios::app);
  if (fresh) file_ << head << std::flush;
  if (!file_)
    throw Error(ErrorCode::io, fmt::format("{}: cannot be written", path.string()),
                "check permissions and free space of the output folder");
}

bool TrainCsv::add(const StepReport& step, const EvaluationReport* evaluation) {
  std::string row = fmt::format("{},{},{:.9g},{:.6g},{:.6g},{:.9g},", step.step, step.epoch,
                                step.loss, step.accuracy, step.images_per_second, step.lr);
  if (evaluation != nullptr)
    row += fmt::format("{:.9g},{:.6g},{},{}\n", evaluation->loss, evaluation->accuracy(),
                       evaluation->correct, evaluation->count);
  else
    row += ",,,\n";
  file_.clear();
  file_ << row << std::flush;
  return static_cast<bool>(file_);
}

}  // namespace troupe
