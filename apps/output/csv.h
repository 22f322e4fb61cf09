#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include "apps/output/line_file.h"
#include "apps/output/report.h"

namespace troupe {

/// train.csv: a row of names, a row of units, then a row for each logged step, flushed at once so
/// that a run can be watched and an aborted one read. A run that goes on in its folder appends.
/// Used by one thread at a time.
class TrainCsv {
 public:
  /// A run that goes on after `steps_done` steps first takes away the rows of later ones, which it
  /// will write again; a row that was left unfinished goes as well. Throws Error{io} when the file
  /// cannot be written.
  explicit TrainCsv(const std::filesystem::path& path,
                    std::optional<std::int64_t> steps_done = std::nullopt);

  /// Writes one row. A full disk is weather: false, and the run goes on without the row.
  [[nodiscard]] bool add(const StepReport& step);
  /// Fills the test columns of the newest row, also of one that an earlier run wrote. False where
  /// there is none, or the disk is full.
  [[nodiscard]] bool fill(const EvaluationReport& evaluation);

 private:
  LineFile file_;
  std::int64_t test_columns_ = -1;  ///< where those of the newest row begin; -1: filled
};

/// Whether a train.csv has the row of this step and lacks its test columns: the evaluation was cut
/// short. False where there is no such file.
bool lacks_evaluation(const std::filesystem::path& path, std::int64_t step);

}  // namespace troupe
