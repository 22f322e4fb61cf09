#include "apps/train/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/error_wording.h"
#include "apps/output/log.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// A NaN has a sign, with which it would be printed as "-nan".
double without_sign_of_nan(double loss) { return std::isnan(loss) ? std::abs(loss) : loss; }

}  // namespace

RunLog::RunLog(const OutputFolder& folder, const Timeline& timeline,
               const LearningRateOptions& rate, std::int64_t every_steps, Definitions own,
               EarlyStopping stopping, std::string_view unit, bool scales_losses,
               std::shared_ptr<const GpuMeter> gpu)
    : every_steps_(every_steps),
      own_(std::move(own)),
      timeline_(timeline),
      rate_(rate),
      unit_(unit),
      gpu_(std::move(gpu)),
      last_step_(report_of(timeline.first)),
      log_(open_log(folder.log())),
      csv_(folder.csv(), timeline.first,
           {.loss_scale = scales_losses, .skipped_steps = scales_losses, .gpu = gpu_ != nullptr}),
      progress_(stdout, ProgressStyle::of(stdout), Progress::Clock::now(), last_step_),
      stopping_(std::move(stopping)),
      rows_until_(timeline.first),
      evaluations_(stopping_.before),
      background_({.name = "log", .capacity = 1 << 14}) {
  totals_.unit = unit_;
}

RunLog::~RunLog() = default;  // the thread is last: it stops first, with its queue empty

void RunLog::post(std::function<void()> work) {
  background_.submit(std::move(work), [](const Status& written) {
    if (!written) print_warning("{}", written.error().what());
  });
}

void RunLog::step(const StepSeen& seen) {
  post([this, seen = seen]() mutable {
    seen.loss = without_sign_of_nan(seen.loss);
    const std::chrono::duration<double> time = seen.duration;
    last_step_ = report_of(seen.step);
    last_step_.loss = seen.loss;
    last_step_.accuracy = seen.accuracy;
    last_step_.images_per_second = static_cast<double>(seen.samples) / time.count();
    LearningRateOptions rate = rate_;
    if (rate.schedule == LearningRateSchedule::plateau)
      rate.plateau_factor =
          plateau_factor(rate, stopping_.monitor, stopping_.min_delta, evaluations());
    last_step_.lr = learning_rate(rate, seen.step - 1);
    totals_.time += time;
    totals_.samples += seen.samples;
    last_step_.training_time = totals_.time;
    last_step_.loss_scale = totals_.loss_scale = seen.loss_scale;
    epoch_.add(seen);
    row_.add(seen);
    progress_.step(last_step_, Progress::Clock::now());
    if (seen.skipped) add_skipped(seen);
    epoch_waits_ = timeline_.evaluates_after(seen.step - 1);
    // A row is written before its test columns are known: if the run ends before, a resumed run
    // fills them.
    if (epoch_waits_ || seen.step % every_steps_ == 0) add_row();
    if (timeline_.ends_epoch(seen.step - 1) && !epoch_waits_) end_epoch(nullptr);
    {
      const std::lock_guard lock(rows_mutex_);
      rows_until_ = seen.step;
    }
    rows_changed_.notify_all();
  });
}

void RunLog::await_rows(std::uint32_t step, std::chrono::milliseconds patience) {
  std::unique_lock lock(rows_mutex_);
  if (!rows_changed_.wait_for(lock, patience, [&] { return rows_until_ >= step; }))
    log_->warn("the checkpoint of step {} is written before the rows of its steps in train.csv",
               step);
}

std::vector<Evaluation> RunLog::evaluations() {
  const std::lock_guard lock(rows_mutex_);
  return evaluations_;
}

std::uint32_t RunLog::steps() {
  const std::lock_guard lock(rows_mutex_);
  return rows_until_;
}

StepReport RunLog::report_of(std::uint32_t step) const {
  return {.step = step,
          .steps_total = timeline_.steps,
          .epoch = timeline_.epoch(step == 0 ? 0 : step - 1) + 1,
          // The schedule spans train.epochs, which train.steps may end early.
          .epochs_total = (std::max<std::int64_t>(timeline_.steps, rate_.total_steps) +
                           timeline_.steps_per_epoch - 1) /
                          timeline_.steps_per_epoch,
          .unit = unit_};
}

void RunLog::evaluation_progress(const EvaluationProgress& seen) {
  // A micro-batch of a test set takes about a millisecond: show fewer.
  constexpr auto period = std::chrono::milliseconds(50);
  const auto now = std::chrono::steady_clock::now();
  if (now - evaluation_shown_ < period) return;
  evaluation_shown_ = now;
  post([this, seen] { progress_.evaluating(seen, Progress::Clock::now()); });
}

void RunLog::evaluation(const Evaluation& result) {
  post([this, seen = result]() mutable {
    seen.loss = without_sign_of_nan(seen.loss);
    if (!std::isfinite(seen.loss)) show_warning("the test loss is not finite");
    epoch_waits_ = false;
    last_evaluation_ = seen;
    check_row(csv_.fill(seen));
    end_epoch(&seen);
    std::string reason;
    {
      const std::lock_guard lock(rows_mutex_);
      evaluations_.push_back(seen);
      reason = reason_to_stop(stopping_, evaluations_);
    }
    if (!reason.empty()) {
      const bool early = seen.step < timeline_.steps;
      const std::string line =
          early ? fmt::format("{} Early stopping after epoch {}.", reason, last_step_.epoch)
                : reason;
      progress_.line(line);
      log_->info(line);
    }
  });
}

void RunLog::Sums::add(const StepSeen& seen) {
  const auto count = static_cast<double>(seen.samples);
  time += seen.duration;
  loss += seen.loss * count;
  if (seen.accuracy)
    accuracy += *seen.accuracy * count;
  else
    has_accuracy = false;
  samples += seen.samples;
  ++steps;
  if (seen.skipped) ++skipped;
}

// While a scale adapts, many steps in a row may be skipped: after the first one, the terminal shows
// their number in each epoch.
void RunLog::add_skipped(const StepSeen& seen) {
  const std::string line =
      fmt::format("step {} was skipped: its gradient is not finite with the loss scale {:.9g}",
                  seen.step, seen.loss_scale.value_or(1));
  log_->info(line);
  if (totals_.skipped_steps++ == 0)
    progress_.line(line + "; if many of a new run are, lower loss_scale.init_scale");
}

void RunLog::show_skipped() {
  if (epoch_.skipped == 0) return;
  const std::string line = fmt::format(
      "epoch {}: {} of {} skipped; the loss scale was {:.9g} in the last one", last_step_.epoch,
      epoch_.skipped, counted(epoch_.steps, "step"), last_step_.loss_scale.value_or(1));
  progress_.line(line);
  log_->info(line);
}

// Its loss, accuracy, throughput and skipped steps are those of all steps since the last row.
void RunLog::add_row() {
  StepReport report = last_step_;
  report.skipped_steps = row_.skipped;
  if (row_.steps > 1) {
    const auto samples = static_cast<double>(row_.samples);
    report.loss = row_.loss / samples;
    if (row_.has_accuracy) report.accuracy = row_.accuracy / samples;
    report.images_per_second = samples / row_.time.count();
  }
  row_ = {};
  if (gpu_) report.gpu = gpu_->latest();
  check_row(csv_.add(report));
}

void RunLog::check_row(bool written) {
  if (!written && !csv_failed_)
    show_warning("train.csv could not be written; training continues without its rows");
  csv_failed_ = !written;
}

void RunLog::end_epoch(const Evaluation* evaluation) {
  // 0 if an earlier process trained the epoch, and only its evaluation was left.
  const auto samples = static_cast<double>(std::max<std::int64_t>(epoch_.samples, 1));
  EpochReport report{.epoch = last_step_.epoch,
                     .epochs_total = last_step_.epochs_total,
                     .step = last_step_.step,
                     .steps = epoch_.steps,
                     .epoch_steps = timeline_.steps_per_epoch,
                     .time = epoch_.time,
                     .loss = epoch_.loss / samples,
                     .accuracy = std::nullopt,
                     .images_per_second = epoch_.samples == 0 ? 0 : samples / epoch_.time.count(),
                     .unit = unit_,
                     .evaluation = std::nullopt};
  if (epoch_.has_accuracy) report.accuracy = epoch_.accuracy / samples;
  if (evaluation) report.evaluation = *evaluation;
  show_skipped();
  progress_.epoch(report);
  log_->info(epoch_line(report));
  epoch_ = {};
}

void RunLog::checkpoint(const CheckpointSeen& seen) {
  post([this, seen] {
    const double seconds = std::chrono::duration<double>(seen.duration).count();
    if (seen.status) {
      checkpoint_error_.reset();
      log_->info("checkpoint of step {} written in {:.3f} s", seen.step, seconds);
      return;
    }
    checkpoint_error_ = seen.status.error();
    const std::string cause = in_words_of_the_command(seen.status.error(), own_).what();
    log_->error("checkpoint of step {}: {}", seen.step, cause);
    progress_.line(fmt::format("warning: no checkpoint of step {}: {}", seen.step, cause));
  });
}

void RunLog::failure(const FailureReport& failure) {
  post([this, failure] {
    const std::size_t others = failure.replaced.size() - 1;
    const std::string line = fmt::format(
        "{} failed: {}; replaced{} after {}{}", failure.actor,
        in_words_of_the_command(failure.cause, own_),
        others > 0 ? fmt::format(" with {}", counted(others, "other actor")) : "",
        counted(failure.steps, "committed step"), others > 0 ? ": the next step begins again" : "");
    progress_.line(line);
    log_->warn(line);
  });
}

void RunLog::info(std::string line) {
  post([this, line = std::move(line)] {
    progress_.line(line);
    log_->info(line);
  });
}

void RunLog::debug(std::string line) {
  post([this, line = std::move(line)] {
    progress_.line(line);
    log_->debug(line);
  });
}

void RunLog::warn(std::string line) {
  post([this, line = std::move(line)] { show_warning(line); });
}

void RunLog::show_warning(const std::string& line) {
  const std::string shown = printable(line, SIZE_MAX, "\n\t");  // names of files may be in it
  progress_.line("warning: " + shown);
  log_->warn(shown);
}

void RunLog::record(std::string line) {
  post([this, line = std::move(line)] { log_->info(line); });
}

void RunLog::record_failure(const Error& error) {
  post([this, what = std::string(in_words_of_the_command(error, own_).what())] {
    log_->error("failed: {}", what);
  });
}

void RunLog::finish(bool stopped) {
  post([this, stopped] {
    const bool waits = std::exchange(epoch_waits_, false);
    if (waits || epoch_.steps > 0) end_epoch(nullptr);  // the run ended within it
    if (waits && stopped) {
      const std::string line = "a resumed run begins with the evaluation that is due";
      progress_.line(line);
      log_->info(line);
    }
    progress_.finish();
  });
  background_.drain();
}

}  // namespace troupe
