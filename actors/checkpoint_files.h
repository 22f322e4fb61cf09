#pragma once
// Writes the snapshots that a CheckpointWriter collects. Both functions wait for the disk. Any
// thread may call them, one at a time for a folder. Failures of the file system are returned;
// mistakes that write_checkpoint refuses (runtime/file/checkpoint.h) are thrown.

#include <filesystem>
#include <vector>

#include "actors/checkpoint_writer.h"
#include "runtime/file/checkpoint.h"
#include "runtime/file/checkpoint_folder.h"

namespace troupe {

/// Writes the stages' snapshots, with the optimizer's state tensors, as
/// `folder`/step_<manifest.step>/ and removes the checkpoints there that `keep` does not
/// name. Checkpoints of later steps, which another run has left there, stay. Returns the path of
/// the checkpoint, or the error of the file system.
Result<std::filesystem::path> write_snapshots(const std::filesystem::path& folder,
                                              Manifest manifest,
                                              const std::vector<Snapshot>& snapshots,
                                              const Retention& keep,
                                              const std::vector<ShardInfo>& elsewhere = {});

/// The same for stages of a process that does not publish: shards for write_snapshots there.
Result<std::vector<ShardInfo>> write_snapshot_shards(const std::filesystem::path& folder,
                                                     std::int64_t step,
                                                     const std::vector<Snapshot>& snapshots);

}  // namespace troupe
