#pragma once
// What a run tells about itself, as plain values: made by RunLog from what the monitor has seen,
// written by OutputFolder's files and shown by Progress.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// A committed step. Loss and accuracy are means over the samples of the step's batch.
struct StepReport {
  std::int64_t step = 0;         ///< from 1, over the whole run
  std::int64_t steps_total = 0;  ///< of the whole run
  std::int64_t epoch = 0;        ///< from 1
  std::int64_t epochs_total = 0;
  double loss = 0;
  double accuracy = 0;  ///< in [0, 1]
  double images_per_second = 0;
  double lr = 0;
};

/// A count over the test samples that is under way.
struct CountingReport {
  std::int64_t counted = 0, count = 0;  ///< samples
};

/// A count over the test samples, each once.
struct EvaluationReport {
  double loss = 0;
  std::int64_t correct = 0;
  std::int64_t count = 0;

  double accuracy() const {
    return count > 0 ? static_cast<double>(correct) / static_cast<double>(count) : 0.0;
  }
};

/// An epoch that has ended. With `evaluation`, the epoch line shows its loss and accuracy, as the
/// training scripts do that people come from; otherwise those of training.
struct EpochReport {
  std::int64_t epoch = 0;  ///< from 1
  std::int64_t epochs_total = 0;
  std::int64_t step = 0;  ///< the last of the epoch
  /// Steps that this process trained, of those that an epoch has: fewer where it went on in the
  /// middle of one, or the run ended there.
  std::int64_t steps = 0, epoch_steps = 0;
  /// Of training, without evaluation; 0 where an earlier process trained the epoch.
  std::chrono::duration<double> time{};
  double loss = 0;
  double accuracy = 0;
  double images_per_second = 0;
  std::optional<EvaluationReport> evaluation;
};

/// "Epoch 1/2: Time=9.819s, Loss=1.6997, Accuracy=0.6386, Throughput=5084.2 img/s (train)"; behind
/// that whose figures they are ("test; train 1.5021, 0.6702"), and of how many steps where it is
/// not the whole epoch. Without time and throughput where they are not known.
std::string epoch_line(const EpochReport& report);

/// "test accuracy 0.9131 (9131/10000)", the last line of a run.
std::string accuracy_line(const EvaluationReport& report);

/// A time to go or gone for people: "42s", "3m07s", "2h05m", "4d03h".
std::string duration_text(std::chrono::duration<double> time);

}  // namespace troupe
