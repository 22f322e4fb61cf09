#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "actors/checkpoint_writer.h"
#include "actors/monitor.h"
#include "apps/options/definitions.h"
#include "apps/output/csv.h"
#include "apps/output/folder.h"
#include "apps/output/gpu_usage.h"
#include "apps/output/progress.h"
#include "apps/output/report.h"
#include "ops/optim/learning_rate.h"
#include "runtime/flow/run.h"
#include "runtime/worker_pool.h"

namespace spdlog {
class logger;
}

namespace troupe {

/// Writes the reports of a run to train.csv, train.log and the terminal. It writes on a thread of
/// its own, so that a slow disk or terminal delays no actor until thousands of lines are queued.
/// All calls may come from any thread, but evaluation_progress() from one at a time: the monitor
/// makes them.
class RunLog {
 public:
  /// `every_steps`: steps between two rows of train.csv. Errors name the settings of `own`
  /// definitions by their keys. `unit`: images_unit or samples_unit. `scales_losses`: train.csv has
  /// columns of the scale and of skipped steps. `gpu`: null where the CPU computes.
  RunLog(const OutputFolder& folder, const Timeline& timeline, const LearningRateOptions& rate,
         std::int64_t every_steps = 1, Definitions own = {}, EarlyStopping stopping = {},
         std::string_view unit = images_unit, bool scales_losses = false,
         std::shared_ptr<const GpuMeter> gpu = nullptr);
  ~RunLog();  ///< writes what is left

  void step(const StepSeen& seen);
  void evaluation_progress(const EvaluationProgress& seen);
  void evaluation(const Evaluation& result);
  void checkpoint(const CheckpointSeen& seen);
  void failure(const FailureReport& failure);
  void info(std::string line);
  void warn(std::string line);
  /// For train.log alone: how the run began and ended.
  void record(std::string line);
  /// For log.level debug: the terminal and train.log.
  void debug(std::string line);
  void record_failure(const Error& error);

  /// Waits until the rows of all steps up to this one are written, so that a run resumed from their
  /// checkpoint finds them. Warns after `patience`: a run may end before it reports its steps.
  void await_rows(std::uint32_t step, std::chrono::milliseconds patience = std::chrono::seconds(2));

  /// Waits until all lines are written, then ends the progress display. If the run was stopped
  /// before an evaluation that is due, a line says that a resumed run begins with it.
  void finish(bool stopped = false);
  std::optional<Evaluation> last_evaluation() const { return last_evaluation_; }
  /// Those of the run so far, earlier parts' included, oldest first.
  std::vector<Evaluation> evaluations();
  /// The steps that were committed and reported, earlier parts' included.
  std::uint32_t steps();
  /// The training that this process has done.
  const TrainingTotals& totals() const { return totals_; }
  /// Null where the CPU computes.
  const GpuMeter* gpu() const { return gpu_.get(); }
  /// The error of the newest checkpoint, if it failed.
  const std::optional<Error>& checkpoint_error() const { return checkpoint_error_; }

 private:
  void post(std::function<void()> work);
  void add_row();
  void check_row(bool written);
  void show_warning(const std::string& line);  ///< on the thread of the log
  void add_skipped(const StepSeen& seen);
  void show_skipped();  ///< those of the epoch
  StepReport report_of(std::uint32_t step) const;
  void end_epoch(const Evaluation* evaluation);

  const std::int64_t every_steps_;
  const Definitions own_;
  const Timeline timeline_;
  const LearningRateOptions rate_;
  const std::string_view unit_;  ///< of throughputs
  const std::shared_ptr<const GpuMeter> gpu_;
  StepReport last_step_;
  std::shared_ptr<spdlog::logger> log_;
  TrainCsv csv_;
  Progress progress_;

  /// Of consecutive steps; losses and accuracies are weighted by samples.
  struct Sums {
    std::chrono::duration<double> time{};
    double loss = 0, accuracy = 0;
    bool has_accuracy = true;
    std::int64_t samples = 0, steps = 0, skipped = 0;

    void add(const StepSeen& seen);
  };
  Sums epoch_,
      row_;  ///< of the current epoch, and since the last row; used by the log thread alone
  TrainingTotals totals_;
  const EarlyStopping stopping_;
  bool epoch_waits_ = false;  ///< for the evaluation that ends the epoch
  std::optional<Evaluation> last_evaluation_;
  std::optional<Error> checkpoint_error_;
  bool csv_failed_ = false;

  std::mutex rows_mutex_;
  std::condition_variable rows_changed_;
  std::uint32_t rows_until_;  ///< the step up to which rows are written
  std::vector<Evaluation> evaluations_;

  std::chrono::steady_clock::time_point evaluation_shown_;  ///< of evaluation_progress() alone

  WorkerPool background_;  // last: its thread uses the others
};

}  // namespace troupe
