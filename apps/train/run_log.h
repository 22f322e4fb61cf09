#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "actors/checkpoint_writer.h"
#include "actors/monitor.h"
#include "apps/options/options.h"
#include "apps/output/csv.h"
#include "apps/output/folder.h"
#include "apps/output/progress.h"
#include "apps/output/report.h"
#include "ops/optim/learning_rate.h"
#include "runtime/background.h"
#include "runtime/flow/run.h"

namespace spdlog {
class logger;
}

namespace troupe {

/// Writes what a run tells to train.csv, train.log and the terminal, on a thread of its own, so
/// that a slow disk or terminal holds up no actor (but for one that is thousands of lines behind).
/// All calls may come from any thread, but counting() from one at a time: the monitor makes them.
class RunLog {
 public:
  RunLog(const Options& options, const OutputFolder& folder, const Timeline& timeline,
         const LearningRateOptions& rate);
  ~RunLog();  ///< writes what is left

  void step(const StepSeen& seen);
  void counting(const EvaluationProgress& seen);
  void evaluation(const EvaluationSeen& seen);
  void checkpoint(const CheckpointSeen& seen);
  void failure(const FailureReport& failure);
  void note(std::string line);
  void warn(std::string line);
  /// For train.log alone: what was begun, and how it ended.
  void record(std::string line);
  void record_failure(const Error& error);

  /// Waits for the rows of the steps until this one, so that whoever goes on from their checkpoint
  /// finds them, however the process ends. Not for ever, since a run may end before they are told:
  /// after `patience` it warns.
  void await_rows(std::uint32_t step, std::chrono::milliseconds patience = std::chrono::seconds(2));

  /// Waits until all that was told is written, then ends the progress display. One that was stopped
  /// goes on where it ended: an evaluation that is due is announced.
  void finish(bool stopped = false);
  std::optional<EvaluationReport> last_evaluation() const { return last_evaluation_; }
  /// What the newest attempt to write a checkpoint met, if it failed.
  const std::optional<Error>& checkpoint_error() const { return checkpoint_error_; }

 private:
  void post(std::function<void()> work);
  void add_row(const StepReport& report);
  void check_row(bool written);
  void tell_warning(const std::string& line);  ///< on the thread of the log
  StepReport report_of(std::uint32_t step) const;
  void end_epoch(const EvaluationReport* evaluation);

  const Options options_;
  const Timeline timeline_;
  const LearningRateOptions rate_;
  StepReport last_step_;
  std::shared_ptr<spdlog::logger> log_;
  TrainCsv csv_;
  Progress progress_;

  // Of the epoch that is under way; used by the thread alone.
  struct Epoch {
    std::chrono::duration<double> time{};
    double loss = 0, accuracy = 0;
    std::int64_t samples = 0, steps = 0;
  } epoch_;
  bool epoch_waits_ = false;  ///< the row and the line of an epoch's end, for its evaluation
  std::optional<EvaluationReport> last_evaluation_;
  std::optional<Error> checkpoint_error_;
  bool csv_failed_ = false;

  std::mutex rows_mutex_;
  std::condition_variable rows_changed_;
  std::uint32_t rows_until_;  ///< the step up to which rows are written

  std::chrono::steady_clock::time_point counting_told_;  ///< of counting() alone

  Background background_;  // last: its thread uses the others
};

}  // namespace troupe
