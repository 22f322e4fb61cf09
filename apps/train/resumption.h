#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "apps/train/training.h"

namespace troupe {

/// Where a run resumes from, and the folder that it continues in.
struct Resumption {
  StartingPoint start;
  std::optional<std::filesystem::path> output;  ///< none: a new one
  std::string note = {};  ///< to print once the run has its folder: why it starts at step 0
};

/// Resolves --restart and -o. `--restart auto` takes the newest complete checkpoint of the output
/// folder; without -o, of the newest folder with the same model, data and seed. If there is none,
/// the run starts at step 0. Otherwise `restart` is the path of a checkpoint or of an output
/// folder. A run resumed from an output folder continues in it, one resumed from a checkpoint in a
/// new folder. Throws Error{usage} if a new run would write into the folder of another.
Resumption find_resumption(const std::string& restart,
                           const std::optional<std::filesystem::path>& output,
                           const Options& options);

/// Throws Error{usage} if the folder holds checkpoints of later steps than `steps`: the checkpoint
/// of the latest step counts as the newest, so a later run would resume from it.
void check_no_later_checkpoints(const std::filesystem::path& folder, std::uint32_t steps);

/// The output folder that holds the checkpoint; empty without one.
std::filesystem::path output_of(const StartingPoint& start);

/// Whether the run resumes after an epoch whose evaluation was not finished. Reads the train.csv of
/// the folder that holds the checkpoint, as the next two functions do.
bool is_evaluation_due(const StartingPoint& start, const Timeline& timeline);

/// The evaluations of the run up to the checkpoint, oldest first.
std::vector<Evaluation> earlier_evaluations(const StartingPoint& start);

/// Copies the rows of the run into `csv`, of a run that continues in another folder, unless that
/// has rows. Throws Error{io}.
void take_over_rows(const StartingPoint& start, const std::filesystem::path& csv);

/// Adds to an error after which a run can be resumed (a lost process or GPU, a failed actor, a
/// damaged sample, a full disk, divergence) how to resume it from `output`, or that no checkpoint
/// was written. After divergence, it names the newest checkpoint, with its loss, of a step before
/// the first loss that was not finite or a hundred times the run's first loss. It looks for that
/// loss in train.csv, in evaluations, and in the step after `steps` committed ones. Other errors
/// stay as they are; `unsupported` ones do, unless there are `steps`.
Error with_resume_hint(const Error& error, const std::filesystem::path& output,
                       std::optional<std::int64_t> steps = {});

}  // namespace troupe
