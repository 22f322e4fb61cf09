#include "actors/checkpoint_files.h"

#include "runtime/file/checkpoint_folder.h"

namespace troupe {

Result<std::filesystem::path> write_snapshots(const std::filesystem::path& folder,
                                              Manifest manifest,
                                              const std::vector<Snapshot>& snapshots,
                                              std::size_t keep) {
  std::vector<ShardContent> shards;
  for (const Snapshot& snapshot : snapshots)
    shards.push_back(
        {static_cast<int>(snapshot.stage), named_tensors(*snapshot.spec, *snapshot.state, true)});
  auto written = write_checkpoint(folder, std::move(manifest), shards);
  if (!written) return written;
  const Status pruned = prune_checkpoints(folder, keep);
  if (!pruned) return pruned.error();
  return written;
}

CheckpointWriterOptions checkpoint_to(const std::filesystem::path& folder, std::size_t stages,
                                      std::size_t keep) {
  return {.stages = stages,
          .write = [folder, keep](std::uint32_t step,
                                  const std::vector<Snapshot>& snapshots) -> Status {
            Manifest manifest;
            manifest.step = step;
            const auto written = write_snapshots(folder, std::move(manifest), snapshots, keep);
            if (!written) return written.error();
            return success();
          },
          .on_checkpoint = {}};
}

}  // namespace troupe
