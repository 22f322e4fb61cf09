#include "apps/output/report.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "runtime/text.h"

namespace troupe {

namespace {

std::string accuracy_part(std::string_view label, std::optional<double> accuracy) {
  return accuracy ? fmt::format("{}{:.4f}", label, *accuracy) : "";
}

/// What loss and accuracy are of, and which part of the epoch was trained.
std::string whose_figures(const EpochReport& report, bool timed) {
  const std::string part = timed && report.steps < report.epoch_steps
                               ? fmt::format(", {} of {} steps", report.steps, report.epoch_steps)
                               : "";
  if (!report.evaluation) return "train" + part;
  if (!timed) return "test";
  return fmt::format("test; train loss {}{}{}", loss_number(report.loss),
                     accuracy_part(", accuracy ", report.accuracy), part);
}

}  // namespace

std::string loss_number(double loss) {
  constexpr double largest = 1e6;
  return std::abs(loss) < largest ? fmt::format("{:.4f}", loss) : fmt::format("{:.3e}", loss);
}

std::string epoch_line(const EpochReport& report) {
  const auto& test = report.evaluation;
  const bool timed = report.time.count() > 0;
  return fmt::format(
      "Epoch {}/{}: {}Loss={}{}{} ({})", report.epoch, report.epochs_total,
      timed ? fmt::format("Time={:.3f}s, ", report.time.count()) : "",
      loss_number(test ? test->loss : report.loss),
      accuracy_part(", Accuracy=", test ? test->accuracy() : report.accuracy),
      timed ? fmt::format(", Throughput={:.1f} {}", report.images_per_second, report.unit) : "",
      whose_figures(report, timed));
}

std::string completion_lines(const TrainingTotals& totals,
                             const std::optional<Evaluation>& evaluation) {
  std::string lines = "Training complete.";
  if (evaluation && evaluation->correct)
    lines += accuracy_part(" Final Accuracy: ", evaluation->accuracy());
  else if (evaluation)
    lines += fmt::format(" Final Loss: {}", loss_number(evaluation->loss));
  const double seconds = totals.time.count();
  if (totals.samples > 0)
    lines += fmt::format("\nTotal Time: {:.1f}s, Throughput: {:.1f} {}", seconds,
                         static_cast<double>(totals.samples) / seconds, totals.unit);
  if (totals.skipped_steps > 0)
    lines += fmt::format("\nSkipped Steps: {}, Loss Scale: {:.9g}", totals.skipped_steps,
                         totals.loss_scale.value_or(1));
  return lines;
}

std::string result_line(const Evaluation& result) {
  if (!result.correct)
    return fmt::format("test loss {} ({})", loss_number(result.loss),
                       counted(result.count, "sample"));
  return fmt::format("test accuracy {:.4f} ({}/{})", *result.accuracy(), *result.correct,
                     result.count);
}

std::string duration_text(std::chrono::duration<double> time) {
  constexpr double longest = 1e9;  // seconds; about 32 years
  if (!std::isfinite(time.count()) || time.count() < 0 || time.count() > longest) return "?";
  const auto seconds = static_cast<std::int64_t>(std::llround(time.count()));
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 3600) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  if (seconds < 86400) return fmt::format("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{}d{:02}h", seconds / 86400, seconds / 3600 % 24);
}

}  // namespace troupe
