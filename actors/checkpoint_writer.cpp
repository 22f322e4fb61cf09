#include "actors/checkpoint_writer.h"

#include <algorithm>

#include "actors/checkpoint_files.h"

namespace troupe {

CheckpointWriter::CheckpointWriter(CheckpointWriterOptions options)
    : options_(std::move(options)), collector_(options_.in_background) {}

ActionLabel CheckpointWriter::act() {
  const bool is_snapshot = snapshot.ready();
  const Header header = is_snapshot ? snapshot.header() : shards.header();
  const MessageKey key = header.key;
  give_up_before(header);
  if (is_snapshot) {
    collector_.add(snapshot.take());
  } else {
    collector_.add(shards.take());
  }
  if (const auto pieces = collector_.take_complete(key, snapshot.edge_count(), shards.edge_count()))
    collector_.write(
        poster(), [this, pieces] { return write(*pieces); },
        [this, pieces](const CheckpointSeen& seen) { on_written(*pieces, seen); });
  return {"S", key};
}

CheckpointSeen CheckpointWriter::write(const SnapshotCollector::Pieces& pieces) const {
  const auto begin = std::chrono::steady_clock::now();
  Status status = attempt([&] { return publish(pieces); });
  // All shard writers have reported. A shard that cannot be removed does not change the reported
  // failure; prune_checkpoints tries again.
  if (!status && shards.connected() && !options_.folder.empty())
    static_cast<void>(discard_shards(options_.folder, pieces.steps));
  return {pieces.steps, std::move(status), std::chrono::steady_clock::now() - begin};
}

Status CheckpointWriter::publish(const SnapshotCollector::Pieces& pieces) const {
  std::vector<ShardInfo> elsewhere;
  for (const auto& held : pieces.shards) {
    if (held->failure) return *held->failure;
    elsewhere.insert(elsewhere.end(), held->shards.begin(), held->shards.end());
  }
  return write(pieces.steps, pieces.states(), elsewhere);
}

Status CheckpointWriter::write(std::uint32_t step, const std::vector<Snapshot>& snapshots,
                               const std::vector<ShardInfo>& elsewhere) const {
  if (options_.write) return options_.write(step, snapshots, elsewhere);
  Manifest manifest;
  manifest.step = step;
  manifest.options = options_.options;
  if (!options_.optimizer.empty()) manifest.run["optimizer"] = options_.optimizer;
  const auto made = write_snapshots(options_.folder, std::move(manifest), snapshots,
                                    {.newest = options_.keep}, elsewhere);
  if (!made) return made.error();
  return success();
}

void CheckpointWriter::release(const SnapshotCollector::Pieces& pieces) {
  for (const auto& held : pieces.snapshots) snapshot.release(held);
  for (const auto& held : pieces.shards) shards.release(held);
}

void CheckpointWriter::on_written(const SnapshotCollector::Pieces& pieces,
                                  const CheckpointSeen& seen) {
  release(pieces);
  collector_.on_written(seen.step);
  report(seen);
  accept_snapshots(true);
  if (collector_.is_finished()) finish();
}

void CheckpointWriter::give_up_before(const Header& piece) {
  for (const auto& lost : collector_.take_lost(piece)) release(lost);
  const std::set<std::uint32_t> open = options_.requested->open;
  for (const std::uint32_t step : open)
    if (step <= piece.key.step && !collector_.holds(step))
      report({step,
              Error(ErrorCode::actor_failed,
                    "a writer failed, and the stages that had sent it their weights"),
              {}});
}

void CheckpointWriter::report(const CheckpointSeen& seen) {
  auto& [open, reported] = *options_.requested;
  open.erase(seen.step);
  reported = std::max(reported, seen.step);
  if (options_.on_checkpoint) options_.on_checkpoint(seen);
}

// A new incarnation receives the newest commit again, and a snapshot may come before its commit.
void CheckpointWriter::on_commit(const Commit& commit) {
  auto& [open, reported] = *options_.requested;
  if (commit.snapshot && commit.step + 1 > reported) open.insert(commit.step + 1);
  collector_.on_commit(commit);
  if (collector_.is_finished()) finish();
}

}  // namespace troupe
