#pragma once
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

#include "apps/output/report.h"

namespace troupe {

/// How progress is shown, and on what.
struct ProgressStyle {
  bool terminal = false;  ///< redraw a bar in place; otherwise a plain line now and then
  bool color = false;
  int width = 80;  ///< columns of the terminal

  /// What suits a stream: a bar where it is a terminal (other than TERM=dumb), colours unless
  /// NO_COLOR is set (https://no-color.org), the width that the terminal tells.
  static ProgressStyle of(std::FILE* stream);
};

/// A mean that forgets: the newest value counts 2 %, each one before a fiftieth less.
class RunningMean {
 public:
  /// The mean with `value` in it. One that is not finite is shown as it is, and begins anew.
  double add(double value);

 private:
  double sum_ = 0, weight_ = 0;
};

/// The progress of a run for a person: a bar with time to go on a terminal, a plain line every few
/// seconds elsewhere, and one line for each epoch. Used by one thread at a
/// time; the clock is the caller's, so that tests own the time.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  /// Begins the run at `now`, after the steps of `begin` of an earlier run. `out` stays the
  /// caller's.
  Progress(std::FILE* out, ProgressStyle style, Clock::time_point now,
           const StepReport& begin = {});

  /// Shows running means of loss, accuracy and throughput: single steps are noise.
  void step(const StepReport& report, Clock::time_point now);
  /// An evaluation under way, after the step that was told last.
  void testing(const CountingReport& counting, Clock::time_point now);
  void epoch(const EpochReport& report);
  /// A line that stays (a warning, a checkpoint written), above the bar.
  void note(const std::string& line);
  /// Takes the bar away.
  void finish();

 private:
  bool is_due(Clock::time_point now) const;
  void draw(Clock::time_point now);
  void erase_bar();
  std::chrono::duration<double> time_to_go(Clock::time_point now) const;
  std::chrono::duration<double> testing_to_go(Clock::time_point now) const;

  std::FILE* out_;
  ProgressStyle style_;
  Clock::time_point start_;
  Clock::time_point last_shown_;
  std::int64_t steps_before_;
  std::optional<CountingReport> counting_;  ///< the newest, while a test set is counted
  std::int64_t counting_begin_ = 0;         ///< samples that were counted at `counting_since_`
  Clock::time_point counting_since_;
  StepReport last_;  ///< with running means in place of the step's own
  RunningMean loss_, accuracy_, seconds_per_image_;
  bool bar_shown_ = false;
};

/// The bar as one line, with room for ^C in `width` columns, without line end; parts that do not
/// fit are left out, the rate before the step, the bar itself last. While a test set is counted,
/// its count is in the place of loss, accuracy and throughput.
std::string progress_bar(const StepReport& report, std::chrono::duration<double> to_go, int width,
                         const std::optional<CountingReport>& counting = std::nullopt);

}  // namespace troupe
