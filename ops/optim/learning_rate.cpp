#include "ops/optim/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/error.h"

namespace troupe {
namespace {

// From `from` at 0 to `to` at 1 along half a cosine.
double annealed(double from, double to, double progress) {
  return to + (from - to) / 2.0 * (1.0 + std::cos(std::numbers::pi * progress));
}

// The step of the largest rate: the rise ends one step early and so does the fall, as PyTorch
// counts them.
double peak_of(const LearningRateOptions& o, double total) {
  return std::max(o.pct_start * total - 1.0, 0.0);
}

double one_cycle(const LearningRateOptions& o, double step, double total) {
  const double first = o.lr / o.div_factor;
  const double last = first / o.final_div_factor;
  const double peak = peak_of(o, total);
  if (step <= peak && peak > 0.0) return annealed(first, o.lr, step / peak);
  const double fall = total - 1.0 - peak;
  return fall <= 0.0 ? o.lr : annealed(o.lr, last, (step - peak) / fall);
}

double scheduled(const LearningRateOptions& o, std::int64_t step) {
  const std::int64_t total = o.total_steps - o.warmup_steps;
  switch (o.schedule) {
    case LearningRateSchedule::constant:
      break;
    case LearningRateSchedule::step: {
      const std::int64_t falls = step / (o.step_epochs * o.steps_per_epoch);
      return o.lr * std::pow(o.step_factor, static_cast<double>(falls));
    }
    case LearningRateSchedule::cosine:
      return annealed(o.lr, 0.0,
                      static_cast<double>(std::min(step, total)) / static_cast<double>(total));
    case LearningRateSchedule::polynomial:
      return o.lr *
             std::pow(1.0 - static_cast<double>(std::min(step, total)) / static_cast<double>(total),
                      o.power);
    case LearningRateSchedule::plateau:
      return o.lr * o.plateau_factor;
    case LearningRateSchedule::one_cycle:
      return one_cycle(o, static_cast<double>(std::min(step, total - 1)),
                       static_cast<double>(total));
  }
  return o.lr;
}

void require(bool holds, std::string_view what, double value, std::string_view remedy) {
  if (!holds)
    throw Error(ErrorCode::bad_options, fmt::format("learning rate: {} is {}", what, value),
                std::string(remedy));
}

}  // namespace

void check(const LearningRateOptions& o) {
  require(std::isfinite(o.lr) && o.lr >= 0.0, "lr", o.lr, "give a number >= 0");
  require(o.warmup_steps >= 0, "warmup_steps", static_cast<double>(o.warmup_steps),
          "give a number >= 0");
  if (o.schedule == LearningRateSchedule::step) {
    require(o.steps_per_epoch > 0, "steps_per_epoch", static_cast<double>(o.steps_per_epoch),
            "an epoch must have at least one step; use smaller batches");
    require(o.step_epochs > 0, "step_epochs", static_cast<double>(o.step_epochs),
            "give a number >= 1");
  }
  if (o.schedule == LearningRateSchedule::step || o.schedule == LearningRateSchedule::plateau)
    require(std::isfinite(o.step_factor) && o.step_factor > 0.0, "step_factor", o.step_factor,
            "give a positive number");
  if (o.schedule == LearningRateSchedule::plateau)
    require(o.plateau_patience >= 0, "plateau_patience", static_cast<double>(o.plateau_patience),
            "give a number >= 0");
  if (o.schedule == LearningRateSchedule::polynomial)
    require(std::isfinite(o.power) && o.power > 0.0, "power", o.power, "give a positive number");
  if (o.schedule == LearningRateSchedule::cosine || o.schedule == LearningRateSchedule::one_cycle ||
      o.schedule == LearningRateSchedule::polynomial)
    require(o.total_steps > o.warmup_steps, "the number of steps after the warm-up",
            static_cast<double>(o.total_steps - o.warmup_steps),
            o.total_steps == 0 ? "set LearningRateOptions::total_steps, as Timeline::steps"
                               : "train for more steps, or warm up for fewer");
  if (o.schedule == LearningRateSchedule::one_cycle) {
    require(o.pct_start >= 0.0 && o.pct_start <= 1.0, "pct_start", o.pct_start,
            "give a part from 0 to 1");
    require(o.div_factor > 0.0, "div_factor", o.div_factor, "give a positive number");
    require(o.final_div_factor > 0.0, "final_div_factor", o.final_div_factor,
            "give a positive number");
  }
}

double learning_rate(const LearningRateOptions& options, std::int64_t step) {
  check(options);
  if (step >= options.warmup_steps) return scheduled(options, step - options.warmup_steps);
  return scheduled(options, 0) * static_cast<double>(step + 1) /
         static_cast<double>(options.warmup_steps + 1);
}

bool lacks_its_rise(const LearningRateOptions& o) {
  return o.schedule == LearningRateSchedule::one_cycle && o.pct_start > 0 &&
         peak_of(o, static_cast<double>(o.total_steps - o.warmup_steps)) == 0.0;
}

}  // namespace troupe
