#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/evaluation.h"
#include "ops/loss.h"
#include "ops/optim/learning_rate.h"

namespace troupe {

/// The score by which evaluations are compared.
enum class MonitoredScore : std::uint8_t { test_loss, test_accuracy };

/// All scores, with their names in options files.
inline constexpr std::array<std::pair<std::string_view, MonitoredScore>, 2> monitored_score_names{
    {{"test_loss", MonitoredScore::test_loss}, {"test_accuracy", MonitoredScore::test_accuracy}}};

/// When a run ends before its last step. The decision is a function of the evaluations, so it is
/// the same in a run that was resumed.
struct EarlyStopping {
  /// The accuracy, from 0 to 1, that the last `patience` evaluations must reach (the last one if
  /// `patience` is 0); 0: no target.
  double target_accuracy = 0;
  /// Without a target: evaluations in a row without an improvement, after which the run ends
  /// (PyTorch Lightning: EarlyStopping); 0: never.
  std::uint32_t patience = 0;
  MonitoredScore monitor = MonitoredScore::test_loss;
  double min_delta = 0;  ///< an improvement is more than this: a smaller loss, a larger accuracy
  std::vector<Evaluation> before = {};  ///< those before this part of a resumed run, oldest first

  bool is_set() const { return target_accuracy > 0 || patience > 0; }
};

/// The index of the evaluation with the best score; a later evaluation replaces the best
/// one only if its score is better by more than `min_delta`. NaN is worse than every number.
/// Returns 0 if there are no evaluations.
std::size_t best_of(MonitoredScore score, double min_delta,
                    std::span<const Evaluation> evaluations);

/// Throws Error{bad_options} where the criteria need the accuracy of a loss that has none.
void check_fits(const LossFunction& loss, const EarlyStopping& criteria);

/// LearningRateOptions::plateau_factor after these evaluations, oldest first: step_factor for each
/// time that more than `plateau_patience` of them in a row brought no improvement of more than
/// `min_delta` (PyTorch: ReduceLROnPlateau with threshold_mode="abs", without cooldown).
double plateau_factor(const LearningRateOptions& rate, MonitoredScore score, double min_delta,
                      std::span<const Evaluation> evaluations);

/// Why the run ends after these evaluations, oldest first, as a sentence; empty: it continues.
std::string reason_to_stop(const EarlyStopping& criteria, std::span<const Evaluation> evaluations);

}  // namespace troupe
