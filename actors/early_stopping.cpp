#include "actors/early_stopping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe {
namespace {

using Name = std::pair<std::string_view, MonitoredScore>;

/// Larger is better; NaN where there is no such score.
double value_of(MonitoredScore score, const Evaluation& evaluation) {
  if (score == MonitoredScore::test_loss) return -evaluation.loss;
  return evaluation.accuracy().value_or(std::nan(""));
}

bool reaches_target(const EarlyStopping& criteria, std::span<const Evaluation> evaluations) {
  const std::size_t wanted = std::max<std::size_t>(criteria.patience, 1);
  if (evaluations.size() < wanted) return false;
  return std::ranges::all_of(evaluations.last(wanted), [&](const Evaluation& evaluation) {
    return evaluation.accuracy() && *evaluation.accuracy() >= criteria.target_accuracy;
  });
}

}  // namespace

std::size_t best_of(MonitoredScore score, double min_delta,
                    std::span<const Evaluation> evaluations) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < evaluations.size(); ++i) {
    const double now = value_of(score, evaluations[i]);
    const double before = value_of(score, evaluations[best]);
    if (now - before > min_delta || (std::isnan(before) && !std::isnan(now))) best = i;
  }
  return best;
}

void check_fits(const LossFunction& loss, const EarlyStopping& criteria) {
  if (loss.has_accuracy()) return;
  const bool target = criteria.target_accuracy > 0;
  if (target || criteria.monitor == MonitoredScore::test_accuracy)
    throw Error(
        ErrorCode::bad_options,
        fmt::format("{}, but a run with `loss` mse has no accuracy",
                    target ? fmt::format("`target_accuracy` is {}", criteria.target_accuracy)
                           : "`EarlyStopping::monitor` is test_accuracy"),
        target ? "set `patience` without `target_accuracy`"
               : "set `EarlyStopping::monitor` to test_loss");
}

double plateau_factor(const LearningRateOptions& rate, MonitoredScore score, double min_delta,
                      std::span<const Evaluation> evaluations) {
  double factor = 1, best = -std::numeric_limits<double>::infinity();
  std::int64_t worse = 0;  // in a row
  for (const Evaluation& evaluation : evaluations) {
    const double now = value_of(score, evaluation);
    if (now > best + min_delta) {
      best = now;
      worse = 0;
    } else if (++worse > rate.plateau_patience) {
      factor *= rate.step_factor;
      worse = 0;
    }
  }
  return factor;
}

std::string reason_to_stop(const EarlyStopping& criteria, std::span<const Evaluation> evaluations) {
  if (criteria.target_accuracy > 0)
    return reaches_target(criteria, evaluations) ? "Target accuracy reached." : "";
  if (criteria.patience == 0 || evaluations.empty()) return {};
  const std::size_t best = best_of(criteria.monitor, criteria.min_delta, evaluations);
  if (evaluations.size() - 1 - best < criteria.patience) return {};
  return fmt::format(
      "No better {}{} in {}.",
      std::ranges::find(monitored_score_names, criteria.monitor, &Name::second)->first,
      criteria.min_delta == 0 ? "" : fmt::format(" by more than {}", criteria.min_delta),
      counted(criteria.patience, "evaluation"));
}

}  // namespace troupe
