#pragma once
// The checkpoints of a run: OUT/checkpoints/step_*. An output folder stands for its newest complete
// checkpoint.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/file/checkpoint.h"

namespace troupe {

/// "step_00000500".
std::string checkpoint_name(std::int64_t step);

/// A folder with the name of a checkpoint.
struct CheckpointInfo {
  std::filesystem::path folder;
  std::int64_t step = 0;
  std::string created;      ///< UTC; empty if damaged
  std::uint64_t bytes = 0;  ///< total size of the shards
  bool complete = false;    ///< it opens and, if requested, every checksum matches
  std::string reason;       ///< why it is not complete
};

/// What list_checkpoints verifies: manifest, sizes and indices, or every stored byte as well (which
/// reads all files).
enum class CheckpointCheck : std::uint8_t { structure, content };

/// The checkpoints in `folder`/checkpoints, or in `folder` itself if it has no such folder, oldest
/// first. Throws Error (io) if the folder cannot be read.
std::vector<CheckpointInfo> list_checkpoints(const std::filesystem::path& folder,
                                             CheckpointCheck check = CheckpointCheck::structure);

struct CheckpointChoice {
  std::filesystem::path folder;      ///< for open_checkpoint
  std::vector<std::string> skipped;  ///< newer ones that are damaged: "FOLDER: reason"
};

/// The checkpoint that `path` stands for: `path` itself if it holds a manifest, else the newest one
/// below it with correct checksums of all bytes. Throws Error (bad_file) with all reasons if there
/// is none, and Error{io} if this process may not read a newer one.
CheckpointChoice newest_complete_checkpoint(const std::filesystem::path& path);

/// open_checkpoint of such a folder. Throws Error (bad_file) if it lacks a file: that names the
/// newest complete checkpoint beside it.
Checkpoint open_complete_checkpoint(const std::filesystem::path& folder);

/// The checkpoints of a folder that stay.
struct Retention {
  std::size_t newest = 3;            ///< complete ones; 0: all
  std::optional<std::int64_t> also;  ///< the one of this step
};

/// Removes the checkpoints that do not stay, and the remains of interrupted writes. `step` is the
/// step of the checkpoint written last. Checkpoints of later steps belong to another run: they are
/// kept and do not count towards `newest`. Only the writer of this folder may call this, and only
/// while no write is in progress, but for shards of later steps. It renames a checkpoint before it
/// removes the files, so none appears half removed.
Status prune_checkpoints(const std::filesystem::path& folder, const Retention& keep,
                         std::int64_t step);

}  // namespace troupe
