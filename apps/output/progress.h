#pragma once
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

#include "actors/monitor.h"
#include "apps/output/report.h"

namespace troupe {

/// How progress is shown, and on what.
struct ProgressStyle {
  bool terminal = false;  ///< redraw a bar in place; otherwise a plain line now and then
  bool color = false;
  int width = 80;  ///< columns of the terminal

  /// For a stream: a bar on a terminal (other than TERM=dumb), colours unless NO_COLOR is set
  /// (https://no-color.org), and the width of the terminal.
  static ProgressStyle of(std::FILE* stream);
};

/// An exponential moving average: the newest value counts 2 %.
class RunningMean {
 public:
  /// The mean after `value`. A value that is not finite is returned and resets the mean.
  double add(double value);

 private:
  double sum_ = 0, weight_ = 0;
};

/// The progress of a run: a bar with the time to go on a terminal, a plain line every few seconds
/// elsewhere, and one line for each epoch. Used by one thread at a time; the caller passes the
/// time.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  /// A run that begins at `now`, after the steps of `begin`. The caller keeps `out`.
  Progress(std::FILE* out, ProgressStyle style, Clock::time_point now,
           const StepReport& begin = {});

  /// Shows running means of loss, accuracy and throughput.
  void step(const StepReport& report, Clock::time_point now);
  /// An evaluation under way, after the step that was shown last.
  void evaluating(const EvaluationProgress& evaluation, Clock::time_point now);
  void epoch(const EpochReport& report);
  /// A line that stays (a warning, a checkpoint written), above the bar.
  void line(const std::string& line);
  /// Erases the bar.
  void finish();

 private:
  bool is_due(Clock::time_point now) const;
  void draw(Clock::time_point now);
  void erase_bar();
  std::chrono::duration<double> time_to_go(Clock::time_point now) const;
  std::chrono::duration<double> evaluation_to_go(Clock::time_point now) const;

  std::FILE* out_;
  ProgressStyle style_;
  Clock::time_point start_;
  Clock::time_point last_shown_;
  std::int64_t steps_before_;
  std::optional<EvaluationProgress> evaluation_;  ///< the newest, during an evaluation
  std::int64_t evaluation_begin_ = 0;             ///< samples that were done at `evaluation_since_`
  Clock::time_point evaluation_since_;
  StepReport last_;  ///< with running means in place of the step's own
  RunningMean loss_, accuracy_, seconds_per_image_;
  bool bar_shown_ = false;
};

/// The bar as one line without line end, with room for ^C in `width` columns. Parts that do not fit
/// are left out: the epoch first, then throughput, accuracy, step, loss, and the bar itself last.
/// During an evaluation its progress takes the place of loss, accuracy and throughput.
std::string progress_bar(const StepReport& report, std::chrono::duration<double> to_go, int width,
                         const std::optional<EvaluationProgress>& evaluation = std::nullopt);

}  // namespace troupe
