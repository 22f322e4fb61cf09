#include "apps/files/best_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "apps/options/option_changes.h"
#include "apps/output/csv.h"
#include "apps/output/report.h"
#include "runtime/file/checkpoint.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/print.h"

namespace troupe {
namespace {

using ScoreName = std::pair<std::string_view, MonitoredScore>;

/// train.monitor in resolved options; the default where they do not have it.
ScoreName recorded_monitor(const std::string& options) {
  const std::string monitor = recorded_option(options, "train", "monitor");
  for (const ScoreName& name : monitored_score_names)
    if (monitor == name.first) return name;
  return monitored_score_names.front();
}

}  // namespace

std::optional<Evaluation> best_with_checkpoint(const std::filesystem::path& folder,
                                               MonitoredScore monitor,
                                               std::vector<Evaluation> evaluations) {
  std::erase_if(evaluations, [&](const Evaluation& evaluation) {
    return !std::filesystem::exists(folder / checkpoint_name(evaluation.step));
  });
  if (evaluations.empty()) return {};
  return evaluations[best_of(monitor, 0, evaluations)];
}

std::optional<EvaluatedCheckpoint> best_checkpoint_of(const std::filesystem::path& run) {
  const std::filesystem::path checkpoints = run / "checkpoints";
  if (!std::filesystem::is_directory(checkpoints)) return {};
  const std::vector<CheckpointInfo> found = list_checkpoints(checkpoints);
  const auto newest = std::find_if(found.rbegin(), found.rend(),
                                   [](const CheckpointInfo& one) { return one.complete; });
  if (newest == found.rend()) return {};
  const auto [name, monitor] = recorded_monitor(open_checkpoint(newest->folder).manifest().options);
  std::vector<Evaluation> evaluations =
      evaluations_until(run / "train.csv", std::numeric_limits<std::int64_t>::max());
  std::vector<std::string> skipped;
  while (const auto best = best_with_checkpoint(checkpoints, monitor, evaluations)) {
    const auto info = std::ranges::find(found, best->step, &CheckpointInfo::step);
    if (info != found.end() && info->complete)
      return EvaluatedCheckpoint{info->folder, *best, name, std::move(skipped)};
    if (info != found.end())
      skipped.push_back(fmt::format("{}: {}", info->folder.string(), info->reason));
    std::erase_if(evaluations, [&](const Evaluation& one) { return one.step == best->step; });
  }
  return {};
}

std::filesystem::path find_best_weights(const std::filesystem::path& run) {
  if (const auto best = best_checkpoint_of(run)) {
    for (const auto& reason : best->skipped) print_warning("skipped {}", reason);
    return best->folder;
  }
  throw Error(ErrorCode::usage,
              fmt::format("--best: {} is not the output folder of a run with a checkpoint after an "
                          "evaluation",
                          run.string()),
              "give the output folder of `troupe train`, or leave out --best");
}

std::string scores_text(const Evaluation& evaluation, std::string_view between) {
  if (!evaluation.correct) return result_line(evaluation);
  return fmt::format("test loss {}{}{}", loss_number(evaluation.loss), between,
                     result_line(evaluation));
}

}  // namespace troupe
