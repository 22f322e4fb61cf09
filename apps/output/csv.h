#pragma once
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "apps/report.h"

namespace troupe {

/// train.csv: a row of names, a row of units, then a row for each logged step, flushed at once so
/// that a run can be watched and an aborted one read. A run that goes on in its folder appends.
/// Used by one thread at a time.
class TrainCsv {
 public:
  /// A run that goes on after `steps_done` steps first takes away the rows of later ones, which it
  /// will write again. Throws Error{io} when the file cannot be written.
  explicit TrainCsv(const std::filesystem::path& path,
                    std::optional<std::int64_t> steps_done = std::nullopt);

  /// Writes one row; the evaluation, where there was one after this step, fills the test columns.
  /// A full disk is weather: false, and the run goes on without the row.
  [[nodiscard]] bool add(const StepReport& step, const EvaluationReport* evaluation = nullptr);

 private:
  std::ofstream file_;
};

}  // namespace troupe
