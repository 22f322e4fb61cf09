#include "apps/train/resumption.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <span>

#include "apps/options/option_changes.h"
#include "apps/output/csv.h"
#include "apps/output/folder.h"
#include "apps/train/run_log.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/file/file.h"

namespace troupe {
namespace {

bool holds_run(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "options_restart.yaml") ||
         std::filesystem::exists(folder / "checkpoints");
}

/// Whether a run there has something that a new run would mix with its own. One that failed before
/// its first row, for example because a file was missing, has nothing.
bool has_progress(const std::filesystem::path& folder) {
  std::ifstream csv(folder / "train.csv");
  std::string names, row;
  std::error_code error;
  const std::filesystem::directory_iterator checkpoints(folder / "checkpoints", error);
  return (std::getline(csv, names) && std::getline(csv, row)) ||
         (!error && checkpoints != std::filesystem::directory_iterator());
}

}  // namespace

Resumption find_resumption(const std::string& restart,
                           const std::optional<std::filesystem::path>& output,
                           const Options& options) {
  if (restart.empty()) {
    if (output && has_progress(*output))
      throw Error(ErrorCode::usage, fmt::format("{} already contains a run", output->string()),
                  "resume it with --restart auto, or choose another folder with -o");
    return {{}, output};
  }
  if (restart != "auto") {
    const std::filesystem::path path = restart;
    if (!std::filesystem::exists(path))
      throw Error(ErrorCode::usage, fmt::format("--restart {}: there is no such folder", restart),
                  "give auto, a checkpoint, or the output folder of a run");
    if (!std::filesystem::is_directory(path))
      throw Error(ErrorCode::usage, fmt::format("--restart {}: it is a file", restart),
                  "give auto, the folder of a checkpoint, or the output folder of a run; to begin "
                  "with the weights of a file: -r model.weights=FILE");
    const bool own_folder = !output && holds_run(path);
    return {read_starting_point(path), own_folder ? path : output};
  }
  const auto folder = output ? output : newest_output("outputs", [&](const auto& run) {
    return is_of_this_run(run, options);
  });
  const bool any = folder && std::filesystem::exists(*folder / "checkpoints") &&
                   !list_checkpoints(*folder / "checkpoints").empty();
  if (!any)
    return {{},
            output,
            output ? fmt::format("no checkpoint to resume from in {}: starting at step 0",
                                 output->string())
                   : "no run of this model, data and seed with a checkpoint in outputs/: starting "
                     "at step 0 (a run with -o DIR is resumed with the same -o DIR)"};
  return {read_starting_point(*folder), folder};
}

void check_no_later_checkpoints(const std::filesystem::path& folder, std::uint32_t steps) {
  if (!std::filesystem::exists(folder / "checkpoints")) return;
  for (const CheckpointInfo& found :
       list_checkpoints(folder / "checkpoints", CheckpointCheck::content))
    if (found.complete && found.step > steps)
      throw Error(ErrorCode::usage,
                  fmt::format("{} holds {}, which is later than step {}", folder.string(),
                              found.folder.filename().string(), steps),
                  "resume from that one with --restart auto, or choose another folder with -o");
}

namespace {

/// A loss so many times the run's first one has exploded.
constexpr double explosion = 100;

/// The first step in train.csv whose weights have a loss that is not finite, or far above the first
/// one; none if there is no such step.
std::optional<std::int64_t> first_diverged_step(const std::filesystem::path& csv,
                                                const std::vector<RowLoss>& rows) {
  const double first = rows.empty() ? 0 : rows.front().loss;
  const double most =
      std::isfinite(first) && first > 0 ? explosion * first : std::numeric_limits<double>::max();
  std::optional<std::int64_t> bad;
  std::int64_t before = 0;  // a row's losses are those of the weights from the row before on
  for (const RowLoss& row : rows) {
    if (!std::isfinite(row.loss) || row.loss > most) {
      bad = before;
      break;
    }
    before = row.step;
  }
  for (const Evaluation& seen : evaluations_until(csv, bad.value_or(before)))
    if (!std::isfinite(seen.loss) || seen.loss > most) return seen.step;
  return bad;
}

/// Of the checkpoints in a run's folder, the steps of the newest one and of the newest one before
/// step `bad`; 0 if there is none.
std::pair<std::int64_t, std::int64_t> newest_steps(const std::filesystem::path& checkpoints,
                                                   std::optional<std::int64_t> bad) {
  std::int64_t newest = 0, sound = 0;
  if (std::filesystem::exists(checkpoints))
    for (const CheckpointInfo& found : list_checkpoints(checkpoints)) {
      if (!found.complete) continue;
      newest = std::max(newest, found.step);
      if (!bad || found.step < *bad) sound = std::max(sound, found.step);
    }
  return {newest, sound};
}

constexpr const char* begin_again = "no checkpoint was written: start the run again";

/// How to resume a run from its newest checkpoint. The command that was out of memory would be
/// again, and a resumed run keeps its batches.
std::string resume_hint(const std::filesystem::path& output, ErrorCode failure) {
  const std::int64_t newest = newest_steps(output / "checkpoints", {}).first;
  if (newest == 0) return begin_again;
  if (failure == ErrorCode::out_of_memory)
    return fmt::format(
        "with another train.batch_size, start a new run; with the other changes, resume from step "
        "{} with --restart {}",
        newest, output.string());
  return fmt::format("resume from step {} with the same command and --restart {}", newest,
                     output.string());
}

/// " (loss 0.25)": the training loss of a step; empty if no row has it.
std::string loss_note(const std::vector<RowLoss>& rows, std::int64_t step) {
  const auto row = std::ranges::find(rows, step, &RowLoss::step);
  return row == rows.end() ? "" : fmt::format(" (loss {:.4g})", row->loss);
}

/// How to resume a run that diverged after `steps` steps. The same command would diverge again, and
/// so would any command that begins with the weights after `steps` steps, or with others whose loss
/// has exploded.
std::string resume_hint_after_divergence(const std::filesystem::path& output,
                                         std::optional<std::int64_t> steps) {
  const std::filesystem::path checkpoints = output / "checkpoints";
  const std::vector<RowLoss> rows = row_losses(output / "train.csv");
  std::optional<std::int64_t> bad = first_diverged_step(output / "train.csv", rows);
  if (steps) bad = std::min(*steps, bad.value_or(*steps));
  const auto [newest, sound] = newest_steps(checkpoints, bad);
  if (newest == 0) return begin_again;
  if (sound == 0)
    return "there is no checkpoint from before the loss diverged: start anew with this change and "
           "another folder (-o)";
  const std::string step = fmt::format("resume from step {}{}", sound, loss_note(rows, sound));
  if (sound == newest)
    return fmt::format("{} with this change and --restart {}", step, output.string());
  return fmt::format(
      "{}, before the loss diverged, with this change, --restart {} and another folder (-o)", step,
      (checkpoints / checkpoint_name(sound)).string());
}

}  // namespace

Error with_resume_hint(const Error& error, const std::filesystem::path& output,
                       std::optional<std::int64_t> steps) {
  const bool lost = error.code() == ErrorCode::peer_lost;
  const std::array resumable{
      ErrorCode::peer_lost, ErrorCode::actor_failed, ErrorCode::device_lost,  ErrorCode::diverged,
      ErrorCode::bad_file,  ErrorCode::io,           ErrorCode::out_of_memory};
  // In the middle of a run, a GPU that others block or the system refuses.
  const bool worked = error.code() == ErrorCode::unsupported && steps.value_or(0) > 0;
  if (!worked && std::ranges::find(resumable, error.code()) == resumable.end()) return error;
  const std::string hint = error.code() == ErrorCode::diverged
                               ? resume_hint_after_divergence(output, steps)
                               : resume_hint(output, error.code());
  // What helps after another process was lost depends on that process, which reports it.
  const bool alone = lost || error.remedy().empty();
  return {error.code(), error.message(),
          alone ? hint : fmt::format("{}; {}", error.remedy(), hint)};
}

std::filesystem::path output_of(const StartingPoint& start) {
  if (start.checkpoint.empty()) return {};
  // The path may be a link, or end with a slash.
  return std::filesystem::canonical(start.checkpoint).parent_path().parent_path();
}

std::vector<Evaluation> earlier_evaluations(const StartingPoint& start) {
  if (start.checkpoint.empty()) return {};
  return evaluations_until(output_of(start) / "train.csv", start.steps);
}

bool is_evaluation_due(const StartingPoint& start, const Timeline& timeline) {
  const std::uint32_t done = start.steps;
  return done > 0 && done <= timeline.steps && timeline.evaluates_after(done - 1) &&
         lacks_evaluation(output_of(start) / "train.csv", done);
}

void take_over_rows(const StartingPoint& start, const std::filesystem::path& csv) {
  if (start.checkpoint.empty() || !row_losses(csv).empty()) return;
  std::ifstream file(output_of(start) / "train.csv");
  const std::string rows{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (rows.empty()) return;
  const Status written = write_file(csv, std::as_bytes(std::span(rows)));
  if (!written) throw written.error();
}

}  // namespace troupe
