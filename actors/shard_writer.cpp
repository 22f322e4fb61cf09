#include "actors/shard_writer.h"

#include "actors/checkpoint_files.h"

namespace troupe {

ShardWriter::ShardWriter(CheckpointWriterOptions options)
    : options_(std::move(options)), collector_(options_.in_background) {}

ActionLabel ShardWriter::act() {
  const Header header = snapshot.header();
  const MessageKey key = header.key;
  for (const auto& lost : collector_.take_lost(header))
    for (const auto& held : lost.snapshots) snapshot.release(held);
  collector_.add(snapshot.take());
  if (const auto pieces = collector_.take_complete(key, snapshot.edge_count(), 0))
    collector_.write(
        poster(), [this, pieces] { return write(*pieces); },
        [this, pieces](const WrittenShards& made) { on_written(*pieces, made); });
  return {"S", key};
}

WrittenShards ShardWriter::write(const SnapshotCollector::Pieces& pieces) const {
  auto shards = attempt([&] {
    return options_.write_shards
               ? options_.write_shards(pieces.steps, pieces.states())
               : write_snapshot_shards(options_.folder, pieces.steps, pieces.states());
  });
  if (!shards) return {.failure = shards.error()};
  return {.shards = std::move(shards.value())};
}

void ShardWriter::on_written(const SnapshotCollector::Pieces& pieces, const WrittenShards& made) {
  shards.send({.key = {pieces.steps - 1, Purpose::train, 0}}, made);
  for (const auto& held : pieces.snapshots) snapshot.release(held);
  collector_.on_written(pieces.steps);
  accept_snapshots(true);
  if (collector_.is_finished()) finish();
}

void ShardWriter::on_commit(const Commit& commit) {
  collector_.on_commit(commit);
  if (collector_.is_finished()) finish();
}

}  // namespace troupe
