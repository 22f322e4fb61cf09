#include "actors/shard_writer.h"

#include "actors/checkpoint_files.h"

namespace troupe {

ShardWriter::ShardWriter(CheckpointWriterOptions options)
    : options_(std::move(options)),
      collector_({.stages = options_.stages, .in_background = options_.in_background}) {}

ActionLabel ShardWriter::act() {
  const MessageKey key = snapshot.header().key;
  collector_.add(snapshot.take());
  if (const auto whole = collector_.take_whole(key))
    collector_.write(
        poster(), [this, whole] { return write(*whole); },
        [this, whole](const WrittenShards& made) { on_written(*whole, made); });
  return {"S", key};
}

WrittenShards ShardWriter::write(const SnapshotCollector::Pieces& pieces) const {
  try {
    auto shards = options_.write_shards
                      ? options_.write_shards(pieces.steps, pieces.states())
                      : write_snapshot_shards(options_.folder, pieces.steps, pieces.states());
    if (shards) return {.shards = std::move(shards.value())};
    return {.error = shards.error().message(), .remedy = shards.error().remedy()};
  } catch (const Error& error) {
    return {.error = error.message(), .remedy = error.remedy()};
  } catch (const std::exception& error) {
    return {.error = error.what()};
  }
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
