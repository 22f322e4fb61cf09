#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace troupe {

/// How the learning rate changes after the warm-up.
enum class LearningRateSchedule : std::uint8_t {
  constant,
  step,        ///< times `step_factor` every `step_epochs` epochs; PyTorch's StepLR, step by step
  cosine,      ///< half a cosine from lr to zero at total_steps; PyTorch's CosineAnnealingLR
               ///< (I. Loshchilov, F. Hutter, "SGDR", ICLR 2017, equation 5)
  polynomial,  ///< lr times the share of the steps that is left, to a power, to zero at
               ///< total_steps; PyTorch's PolynomialLR
  plateau,     ///< times `step_factor` after evaluations without an improvement; PyTorch's
               ///< ReduceLROnPlateau
  one_cycle,   ///< up to lr and down again; PyTorch's OneCycleLR (L. N. Smith, N. Topin,
               ///< "Super-convergence", 2018)
};

/// All schedules, with their names in options files.
inline constexpr std::array<std::pair<std::string_view, LearningRateSchedule>, 6>
    learning_rate_schedule_names{{{"constant", LearningRateSchedule::constant},
                                  {"step", LearningRateSchedule::step},
                                  {"cosine", LearningRateSchedule::cosine},
                                  {"polynomial", LearningRateSchedule::polynomial},
                                  {"plateau", LearningRateSchedule::plateau},
                                  {"one_cycle", LearningRateSchedule::one_cycle}}};

struct LearningRateOptions {
  LearningRateSchedule schedule = LearningRateSchedule::constant;
  double lr = 0.1;                   ///< the largest rate
  std::int64_t total_steps = 0;      ///< optimizer steps of the whole run, warm-up included
  std::int64_t warmup_steps = 0;     ///< linear, from almost 0, before the schedule
  std::int64_t steps_per_epoch = 0;  ///< for `step`
  std::int64_t step_epochs = 10;
  double step_factor = 0.1;
  double power = 1.0;  ///< for `polynomial`; 1: linear
  /// plateau: evaluations in a row without an improvement that change nothing, and the factor that
  /// the evaluations so far make (actors/early_stopping.h).
  std::int64_t plateau_patience = 10;
  double plateau_factor = 1.0;
  /// one_cycle, with PyTorch's defaults: the share of the steps in which the rate rises from lr /
  /// div_factor, and the ratio of the first rate to the last.
  double pct_start = 0.3;
  double div_factor = 25.0;
  double final_div_factor = 1e4;
};

/// The rate of optimizer step `step` (from 0). A pure function: a resumed run needs no state for
/// it, only the history of its evaluations for a plateau. Steps beyond the end keep the last rate.
/// Throws Error{bad_options} for numbers that give no rate.
double learning_rate(const LearningRateOptions& options, std::int64_t step);

/// Throws Error{bad_options} if learning_rate would throw at any step.
void check(const LearningRateOptions& options);

/// Whether one_cycle starts at the largest rate, as PyTorch's does, because its rising part has at
/// most one step after the warm-up.
bool lacks_its_rise(const LearningRateOptions& options);

}  // namespace troupe
