#pragma once
// The checkpoints of a run: OUT/checkpoints/step_*. Where a checkpoint is asked for, an output
// folder stands for its newest whole one.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/error.h"

namespace troupe {

/// "step_00000500".
std::string checkpoint_name(std::int64_t step);

/// One folder whose name is that of a checkpoint.
struct CheckpointInfo {
  std::filesystem::path folder;
  std::int64_t step = 0;
  std::string created;      ///< UTC; empty for a broken one
  std::uint64_t bytes = 0;  ///< of its shards
  bool whole = false;       ///< opens, and (where asked for) every checksum fits
  std::string reason;       ///< why it is not whole
};

/// How closely list_checkpoints looks: at manifest, sizes and indices, or at every stored byte
/// too (which reads whole files at the speed of the disk).
enum class CheckpointCheck : std::uint8_t { structure, content };

/// The checkpoints in `folder`/checkpoints, or in `folder` itself where it has no such folder;
/// oldest first. Empty where there are none; throws Error (io) where the folder cannot be read.
std::vector<CheckpointInfo> list_checkpoints(const std::filesystem::path& folder,
                                             CheckpointCheck check = CheckpointCheck::structure);

struct CheckpointChoice {
  std::filesystem::path folder;      ///< for open_checkpoint
  std::vector<std::string> skipped;  ///< newer ones that are broken: "FOLDER: reason"
};

/// The checkpoint that `path` stands for: itself when it holds a manifest, else the newest one
/// below it whose every byte has the right checksum. Throws Error (bad_file) with all reasons where
/// there is none.
CheckpointChoice newest_whole_checkpoint(const std::filesystem::path& path);

/// Removes every checkpoint older than the `keep` newest whole ones (0 keeps all) and whatever
/// interrupted writes left. Only for the one writer of this folder, with no write under way. A
/// checkpoint loses its name first and its files then, so none is ever seen half removed.
Status prune_checkpoints(const std::filesystem::path& folder, std::size_t keep);

}  // namespace troupe
