#include "actors/checkpoint_files.h"

#include <fmt/format.h>

#include "runtime/device/own_stream.h"

namespace troupe {

namespace {

std::vector<ShardContent> contents(const std::vector<Snapshot>& snapshots) {
  std::vector<ShardContent> shards;
  shards.reserve(snapshots.size());
  for (const Snapshot& snapshot : snapshots) {
    const OwnStream stream({.device = snapshot.state->weights.device()});
    const StatePtr state = on_cpu(stream.get(), snapshot.state);
    shards.push_back(
        {static_cast<int>(snapshot.stage), named_tensors(*snapshot.spec, *state, true)});
  }
  return shards;
}

}  // namespace

Result<std::filesystem::path> write_snapshots(const std::filesystem::path& folder,
                                              Manifest manifest,
                                              const std::vector<Snapshot>& snapshots,
                                              const Retention& keep,
                                              const std::vector<ShardInfo>& elsewhere) {
  const std::int64_t step = manifest.step;
  if (!snapshots.empty()) {
    const StateVersion& state = *snapshots.front().state;
    manifest.run["updates"] = std::to_string(state.updates);
    if (const auto& scale = state.loss_scale)
      manifest.run["loss_scale"] =
          fmt::format("{} {} {}", scale->scale, scale->finite_steps, scale->overflows);
  }
  auto written = write_checkpoint(folder, std::move(manifest), contents(snapshots), {}, elsewhere);
  if (!written) return written;
  const Status pruned = prune_checkpoints(folder, keep, step);
  if (!pruned) return pruned.error();
  return written;
}

Result<std::vector<ShardInfo>> write_snapshot_shards(const std::filesystem::path& folder,
                                                     std::int64_t step,
                                                     const std::vector<Snapshot>& snapshots) {
  return write_shards(folder, step, contents(snapshots));
}

}  // namespace troupe
