#pragma once
#include <chrono>
#include <cstdio>
#include <string>

#include "apps/report.h"

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

/// The progress of a run for a person: a bar with time to go on a terminal, a plain line every few
/// seconds elsewhere, one line for each epoch, and the final accuracy. Used by one thread at a
/// time; the clock is the caller's, so that tests own the time.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  /// Begins the run at `now`, after `steps_done` steps of an earlier run. `out` stays the caller's.
  Progress(std::FILE* out, ProgressStyle style, Clock::time_point now, std::int64_t steps_done = 0);

  void step(const StepReport& report, Clock::time_point now);
  void epoch(const EpochReport& report);
  /// A line that stays (a warning, a checkpoint written), above the bar.
  void note(const std::string& line);
  /// Takes the bar away and writes the final lines of the run.
  void finish(const EvaluationReport* evaluation);

 private:
  void draw(const StepReport& report, Clock::time_point now);
  void erase_bar();
  std::chrono::duration<double> time_to_go(const StepReport& report, Clock::time_point now) const;

  std::FILE* out_;
  ProgressStyle style_;
  Clock::time_point start_;
  Clock::time_point last_shown_;
  std::int64_t steps_before_;
  bool bar_shown_ = false;
};

/// The bar as one line of less than `width` columns, without line end; parts that do not fit
/// are left out, the bar itself last.
std::string progress_bar(const StepReport& report, std::chrono::duration<double> to_go, int width);

}  // namespace troupe
