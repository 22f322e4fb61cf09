#pragma once
// The reports of a run as plain values. RunLog creates them from the events of the monitor.
// Progress and the files of the output folder show them.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "actors/evaluation.h"
#include "apps/output/gpu_usage.h"

namespace troupe {

/// The units of throughputs: of samples that are images, and of others.
inline constexpr std::string_view images_unit = "img/s", samples_unit = "samples/s";

/// A committed step. Loss and accuracy are means over the samples of the step's batch.
struct StepReport {
  std::int64_t step = 0;         ///< from 1, over the whole run
  std::int64_t steps_total = 0;  ///< of the whole run
  std::int64_t epoch = 0;        ///< from 1
  std::int64_t epochs_total = 0;
  double loss = 0;
  std::optional<double> accuracy = 0;  ///< in [0, 1]; none for a loss without accuracy
  double images_per_second = 0;
  std::string_view unit = images_unit;  ///< of images_per_second
  double lr = 0;
  std::optional<double> loss_scale = {};          ///< none if losses are not scaled
  std::int64_t skipped_steps = 0;                 ///< of those that the report is of
  std::chrono::duration<double> training_time{};  ///< of this process up to here, no evaluations
  GpuUsage gpu = {};                              ///< the newest reading, if a GPU computes
};

/// An epoch that has ended. The epoch line shows loss and accuracy of `evaluation`, as PyTorch
/// training scripts do, or those of training when there was none.
struct EpochReport {
  std::int64_t epoch = 0;  ///< from 1
  std::int64_t epochs_total = 0;
  std::int64_t step = 0;  ///< the last of the epoch
  /// Steps that this process trained, and steps of an epoch: the first are fewer when the run was
  /// resumed within the epoch, or ended within it.
  std::int64_t steps = 0, epoch_steps = 0;
  /// Of training, without evaluation; 0 if an earlier process trained the epoch.
  std::chrono::duration<double> time{};
  double loss = 0;
  std::optional<double> accuracy = 0;
  double images_per_second = 0;
  std::string_view unit = images_unit;  ///< of images_per_second
  std::optional<Evaluation> evaluation;
};

/// "0.2341"; "5.999e+30" for a number that is too large to read in full.
std::string loss_number(double loss);

/// "Epoch 1/2: Time=9.819s, Loss=1.6997, Accuracy=0.6386, Throughput=5084.2 img/s (train)". The
/// parentheses say what loss and accuracy are of ("test; train loss 1.5021, accuracy 0.6702"), and
/// how many steps were trained if not the whole epoch. Time, throughput and accuracy are left out
/// where there are none.
std::string epoch_line(const EpochReport& report);

/// The training of this process, without evaluations.
struct TrainingTotals {
  std::chrono::duration<double> time{};
  std::int64_t samples = 0;
  std::string_view unit = images_unit;    ///< of samples in a second
  std::int64_t skipped_steps = 0;         ///< because the gradient was not finite
  std::optional<double> loss_scale = {};  ///< of the last step; none if losses are not scaled
};

/// "Training complete. Final Accuracy: 0.9131" ("Final Loss: 0.1234" for a loss without accuracy;
/// left out if there was no evaluation) and, on a second line, unless this process has trained
/// nothing, "Total Time: 61.9s, Throughput: 3875.1 img/s". If steps were skipped, a line more:
/// "Skipped Steps: 3, Loss Scale: 8192".
std::string completion_lines(const TrainingTotals& totals,
                             const std::optional<Evaluation>& evaluation);

/// "test accuracy 0.9131 (9131/10000)", the last line of a run; for a loss without accuracy "test
/// loss 0.1234 (10000 samples)".
std::string result_line(const Evaluation& result);

/// "42s", "3m07s", "2h05m", "4d03h".
std::string duration_text(std::chrono::duration<double> time);

}  // namespace troupe
