#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "apps/train/training.h"

namespace troupe {

/// Where a run goes on from, and the folder that it goes on in.
struct Resumption {
  StartingPoint start;
  std::optional<std::filesystem::path> output;  ///< nothing: a new one
};

/// What --restart and -o mean together. `auto`: the newest whole checkpoint of the output folder
/// (without -o: of the newest one of the same model, data and seed); where there is none, the run
/// begins at step 0. Otherwise a checkpoint or an output folder by path. A run goes on in its own
/// output folder; from a checkpoint's folder it goes on in a new one. Throws Error{usage} where a
/// new run would write into the folder of another.
Resumption find_resumption(const std::string& restart,
                           const std::optional<std::filesystem::path>& output,
                           const Options& options);

/// Throws Error{usage} where the folder holds checkpoints of steps that this run has still to make:
/// newest means most steps, so they would be taken for its own.
void check_no_later_checkpoints(const std::filesystem::path& folder, std::uint32_t steps);

/// Whether it goes on after an epoch that ended before its test set was counted.
bool is_evaluation_due(const Resumption& resumption, const Timeline& timeline);

/// Of a run that another process's loss has ended: from which step of `output` it can go on, or
/// that nothing was saved. Other errors as they are.
Error with_way_to_go_on(const Error& error, const std::filesystem::path& output);

}  // namespace troupe
