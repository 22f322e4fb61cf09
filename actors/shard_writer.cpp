#include "actors/shard_writer.h"

#include "actors/checkpoint_files.h"

namespace troupe {

ActionLabel ShardWriter::act() {
  auto held = snapshot.take();
  const MessageKey key = held.header.key;
  Job& open = collecting_[key.step];
  open.key = {key.step, Purpose::train, 0};
  open.snapshots.push_back(std::move(held));
  if (open.snapshots.size() < options_.stages) return {"S", key};
  const auto job = std::make_shared<Job>(std::move(open));
  collecting_.erase(key.step);
  // A prototype, which only tells its ports, needs no thread.
  if (!background_)
    background_.emplace(
        BackgroundOptions{.name = "checkpoints", .threads = options_.in_background ? 1 : 0});
  const bool taken =
      background_->try_submit([this, job] { return write(*job); },
                              [this, job](Result<WrittenShards> shards) {
                                if (!options_.in_background) return written(*job, shards.value());
                                poster()([job, shards = std::move(shards)](Actor& self) {
                                  static_cast<ShardWriter&>(self).written(*job, shards.value());
                                });
                              });
  if (!taken) throw Error(ErrorCode::internal, "more checkpoints wait than a run asks for");
  return {"S", key};
}

WrittenShards ShardWriter::write(const Job& job) const {
  std::vector<Snapshot> snapshots;
  for (const auto& held : job.snapshots) snapshots.push_back(*held);
  try {
    const std::uint32_t step = job.key.step + 1;
    auto shards = options_.write_shards ? options_.write_shards(step, snapshots)
                                        : write_snapshot_shards(options_.folder, step, snapshots);
    if (shards) return {std::move(shards.value()), {}};
    return {{}, shards.error().what()};
  } catch (const std::exception& error) {
    return {{}, error.what()};
  }
}

void ShardWriter::written(const Job& job, const WrittenShards& made) {
  shards.send({.key = job.key}, made);
  for (const auto& held : job.snapshots) snapshot.release(held);
  done_ = job.key.step + 1;
  accept_snapshots(true);
  finish_if_done();
}

void ShardWriter::on_commit(const Commit& commit) {
  if (commit.snapshot) wanted_ = commit.step + 1;
  last_seen_ = commit.last;
  finish_if_done();
}

void ShardWriter::finish_if_done() {
  if (last_seen_ && done_ >= wanted_) finish();
}

}  // namespace troupe
