#include "apps/output/csv.h"

#include <fmt/format.h>

#include "runtime/error.h"

namespace troupe {
namespace {

constexpr std::string_view head =
    "step,epoch,loss,accuracy,images_per_second,learning_rate,test_loss,test_accuracy,"
    "test_correct,test_count\n"
    ",,nats,,1/s,,nats,,,\n";

}  // namespace

TrainCsv::TrainCsv(const std::filesystem::path& path) {
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
