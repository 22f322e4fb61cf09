#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "apps/output/line_file.h"
#include "apps/output/report.h"

namespace troupe {

/// The columns of a train.csv that not every run has.
struct CsvColumns {
  bool loss_scale = false;     ///< if losses are scaled
  bool skipped_steps = false;  ///< likewise: those since the row before
  bool gpu = false;            ///< if a GPU computes
};

/// train.csv: a row of names, then a row for each logged step, flushed at once. A resumed run
/// appends, and its training time continues from the last row. The file keeps its columns; those of
/// `CsvColumns` that it lacks are added, empty in earlier rows. Used by one thread at a time.
class TrainCsv {
 public:
  /// A run that resumes after `steps_done` steps first removes the rows of later steps, which it
  /// will write again, and an incomplete row. Throws Error{io} when the file cannot be written.
  explicit TrainCsv(const std::filesystem::path& path,
                    std::optional<std::int64_t> steps_done = std::nullopt,
                    const CsvColumns& columns = {});

  /// Writes one row. Returns false if the disk is full; the run then continues without the row.
  [[nodiscard]] bool add(const StepReport& step);
  /// Fills the test columns of the newest row, also of a row of an earlier process. False if there
  /// is no such row or the disk is full.
  [[nodiscard]] bool fill(const Evaluation& evaluation);

 private:
  LineFile file_;
  std::int64_t test_columns_ = -1;  ///< where those of the newest row begin; -1: filled
  bool has_time_ = true;
  CsvColumns columns_;
  double seconds_before_ = 0;  ///< of training, in the rows that were there
};

/// Whether a train.csv has the row of this step without test columns: the evaluation was not
/// finished. False if there is no such file.
bool lacks_evaluation(const std::filesystem::path& path, std::int64_t step);

/// The evaluations in a train.csv after at most so many steps, oldest first; none if there is no
/// such file. Rows that cannot be read are left out.
std::vector<Evaluation> evaluations_until(const std::filesystem::path& path, std::int64_t step);

struct RowLoss {
  std::int64_t step = 0;
  double loss = 0;  ///< the mean of the steps since the row before
};
/// The training losses in a train.csv, in the order of its rows, which is read as above.
std::vector<RowLoss> row_losses(const std::filesystem::path& path);

}  // namespace troupe
