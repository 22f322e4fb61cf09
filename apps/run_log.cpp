#include "apps/run_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/output/log.h"

namespace troupe {

RunLog::RunLog(const Options& options, const OutputFolder& folder, const Timeline& timeline,
               const LearningRateOptions& rate)
    : options_(options),
      timeline_(timeline),
      rate_(rate),
      log_(open_log(folder.log())),
      csv_(folder.csv(), timeline.first),
      progress_(stdout, ProgressStyle::of(stdout), Progress::Clock::now(), timeline.first),
      thread_([this](std::stop_token stop) { work(stop); }) {}

RunLog::~RunLog() = default;  // the thread is last: it stops first, with its queue empty

void RunLog::post(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  wake_.notify_one();
}

void RunLog::work(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (wake_.wait(lock, stop, [&] { return !queue_.empty(); })) {
    const auto next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    next();
    lock.lock();
  }
}

void RunLog::step(const StepSeen& seen) {
  post([this, seen] {
    const std::chrono::duration<double> time = seen.duration;
    const std::int64_t epochs =
        (timeline_.steps + timeline_.steps_per_epoch - 1) / timeline_.steps_per_epoch;
    last_step_ = {.step = seen.step,
                  .steps_total = timeline_.steps,
                  .epoch = timeline_.epoch(seen.step - 1) + 1,
                  .epochs_total = epochs,
                  .loss = seen.loss,
                  .accuracy = seen.accuracy,
                  .images_per_second = static_cast<double>(seen.samples) / time.count(),
                  .lr = learning_rate(rate_, seen.step - 1)};
    const auto samples = static_cast<double>(seen.samples);
    epoch_.time += time;
    epoch_.loss += seen.loss * samples;
    epoch_.accuracy += seen.accuracy * samples;
    epoch_.samples += seen.samples;
    progress_.step(last_step_, Progress::Clock::now());
    if (!timeline_.ends_epoch(seen.step - 1)) return add_row(last_step_, nullptr);
    // The row of an epoch's last step waits for the test columns.
    row_waits_ = timeline_.evaluates_after(seen.step - 1);
    if (row_waits_) return;
    add_row(last_step_, nullptr);
    end_epoch(nullptr);
  });
}

void RunLog::evaluation(const EvaluationSeen& seen) {
  post([this, seen] {
    row_waits_ = false;
    last_evaluation_ = {seen.loss, seen.correct, seen.count};
    add_row(last_step_, &*last_evaluation_);
    end_epoch(&*last_evaluation_);
  });
}

void RunLog::add_row(const StepReport& report, const EvaluationReport* evaluation) {
  if (!evaluation && report.step % options_.log.every_steps != 0) return;
  const bool failed = !csv_.add(report, evaluation);
  if (failed && !csv_failed_) {
    progress_.note("warning: train.csv could not be written; training goes on without its rows");
    log_->warn("train.csv could not be written");
  }
  csv_failed_ = failed;
}

void RunLog::end_epoch(const EvaluationReport* evaluation) {
  const auto samples = static_cast<double>(epoch_.samples);
  EpochReport report{.epoch = last_step_.epoch,
                     .epochs_total = last_step_.epochs_total,
                     .step = last_step_.step,
                     .time = epoch_.time,
                     .loss = epoch_.loss / samples,
                     .accuracy = epoch_.accuracy / samples,
                     .images_per_second = samples / epoch_.time.count(),
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

void RunLog::finish() {
  std::mutex mutex;
  std::condition_variable done;
  bool reached = false;
  post([&] {
    if (row_waits_) {  // the run was stopped before the evaluation
      add_row(last_step_, nullptr);
      end_epoch(nullptr);
    }
    progress_.finish(nullptr);
    const std::lock_guard lock(mutex);
    reached = true;
    done.notify_one();
  });
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return reached; });
}

}  // namespace troupe
