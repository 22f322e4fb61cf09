#include "apps/train/run_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "apps/output/log.h"
#include "runtime/print.h"

namespace troupe {

RunLog::RunLog(const Options& options, const OutputFolder& folder, const Timeline& timeline,
               const LearningRateOptions& rate)
    : options_(options),
      timeline_(timeline),
      rate_(rate),
      last_step_(report_of(timeline.first)),
      log_(open_log(folder.log())),
      csv_(folder.csv(), timeline.first),
      progress_(stdout, ProgressStyle::of(stdout), Progress::Clock::now(), last_step_),
      rows_until_(timeline.first),
      background_({.name = "log", .capacity = 1 << 14}) {}

RunLog::~RunLog() = default;  // the thread is last: it stops first, with its queue empty

void RunLog::post(std::function<void()> work) {
  background_.submit(std::move(work), [](const Status& written) {
    if (!written) print_error("troupe: warning: {}\n", written.error().what());
  });
}

void RunLog::step(const StepSeen& seen) {
  post([this, seen] {
    const std::chrono::duration<double> time = seen.duration;
    last_step_ = report_of(seen.step);
    last_step_.loss = seen.loss;
    last_step_.accuracy = seen.accuracy;
    last_step_.images_per_second = static_cast<double>(seen.samples) / time.count();
    last_step_.lr = learning_rate(rate_, seen.step - 1);
    const auto samples = static_cast<double>(seen.samples);
    epoch_.time += time;
    epoch_.loss += seen.loss * samples;
    epoch_.accuracy += seen.accuracy * samples;
    epoch_.samples += seen.samples;
    ++epoch_.steps;
    progress_.step(last_step_, Progress::Clock::now());
    epoch_waits_ = timeline_.evaluates_after(seen.step - 1);
    // A row that waits for its test columns is written all the same: if the run ends before they
    // are known, the next one fills them.
    if (epoch_waits_ || seen.step % options_.log.every_steps == 0) add_row(last_step_);
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
    log_->warn("the checkpoint of step {} comes before rows of train.csv; its steps are told late",
               step);
}

StepReport RunLog::report_of(std::uint32_t step) const {
  return {.step = step,
          .steps_total = timeline_.steps,
          .epoch = timeline_.epoch(step == 0 ? 0 : step - 1) + 1,
          .epochs_total =
              (timeline_.steps + timeline_.steps_per_epoch - 1) / timeline_.steps_per_epoch};
}

void RunLog::counting(const EvaluationProgress& seen) {
  // A micro-batch of a test set takes a millisecond or less: nobody reads so fast.
  constexpr auto period = std::chrono::milliseconds(50);
  const auto now = std::chrono::steady_clock::now();
  if (now - counting_told_ < period) return;
  counting_told_ = now;
  post([this, seen] {
    progress_.testing({.counted = seen.counted, .count = seen.count}, Progress::Clock::now());
  });
}

void RunLog::evaluation(const EvaluationSeen& seen) {
  post([this, seen] {
    epoch_waits_ = false;
    last_evaluation_ = {seen.loss, seen.correct, seen.count};
    check_row(csv_.fill(*last_evaluation_));
    end_epoch(&*last_evaluation_);
  });
}

void RunLog::add_row(const StepReport& report) { check_row(csv_.add(report)); }

void RunLog::check_row(bool written) {
  if (!written && !csv_failed_)
    tell_warning("train.csv could not be written; training goes on without its rows");
  csv_failed_ = !written;
}

void RunLog::end_epoch(const EvaluationReport* evaluation) {
  // None where an earlier process trained the epoch, and only its evaluation was left.
  const auto samples = static_cast<double>(std::max<std::int64_t>(epoch_.samples, 1));
  EpochReport report{.epoch = last_step_.epoch,
                     .epochs_total = last_step_.epochs_total,
                     .step = last_step_.step,
                     .steps = epoch_.steps,
                     .epoch_steps = timeline_.steps_per_epoch,
                     .time = epoch_.time,
                     .loss = epoch_.loss / samples,
                     .accuracy = epoch_.accuracy / samples,
                     .images_per_second = epoch_.samples == 0 ? 0 : samples / epoch_.time.count(),
                     .evaluation = std::nullopt};
  if (evaluation) report.evaluation = *evaluation;
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
    log_->error("checkpoint of step {}: {}", seen.step, seen.status.error().what());
    progress_.note(fmt::format("warning: no checkpoint of step {}: {}", seen.step,
                               seen.status.error().what()));
  });
}

void RunLog::failure(const FailureReport& failure) {
  post([this, failure] {
    const std::string line =
        fmt::format("{} failed: {}; replaced: {}; {} steps are whole, the next is played again",
                    failure.actor, failure.cause, fmt::join(failure.replaced, ", "), failure.steps);
    progress_.note(line);
    log_->warn(line);
  });
}

void RunLog::note(std::string line) {
  post([this, line = std::move(line)] {
    progress_.note(line);
    log_->info(line);
  });
}

void RunLog::warn(std::string line) {
  post([this, line = std::move(line)] { tell_warning(line); });
}

void RunLog::tell_warning(const std::string& line) {
  progress_.note("warning: " + line);
  log_->warn(line);
}

void RunLog::record(std::string line) {
  post([this, line = std::move(line)] { log_->info(line); });
}

void RunLog::record_failure(const Error& error) {
  post([this, what = std::string(error.what())] { log_->error("failed: {}", what); });
}

void RunLog::finish(bool stopped) {
  post([this, stopped] {
    const bool waits = std::exchange(epoch_waits_, false);
    if (waits || epoch_.steps > 0) end_epoch(nullptr);  // the run ended within it
    if (waits && stopped) {
      const std::string line = "the test set is counted first when the run goes on";
      progress_.note(line);
      log_->info(line);
    }
    progress_.finish();
  });
  background_.drain();
}

}  // namespace troupe
