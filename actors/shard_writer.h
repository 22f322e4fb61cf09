#pragma once
#include "actors/checkpoint_writer.h"
#include "actors/messages.h"
#include "actors/snapshot_collector.h"
#include "runtime/flow/actor.h"

namespace troupe {

/// Writes the shards of the stages of one process while training continues, and reports them to the
/// checkpoint writer, which publishes the checkpoint. Every process thus writes its own stages, and
/// no process holds the whole model.
class ShardWriter final : public Actor {
 public:
  /// It uses only `in_background`, `folder` and `write_shards`.
  using Options = CheckpointWriterOptions;
  explicit ShardWriter(CheckpointWriterOptions options);

  Input<Snapshot> snapshot{this, "snapshot"};
  Output<WrittenShards> shards{this, "shards"};

  /// Its results find a free slot whenever they are written.
  bool ready() const override {
    return snapshot.ready() && shards.has_slot(collector_.count_with(snapshot.header()));
  }
  ActionLabel act() override;
  void on_commit(const Commit& commit) override;
  bool outlives_steps() const override { return true; }
  bool takes_snapshots() const override { return true; }
  FiringRules firing_rules() const override { return {}; }  // at the rate of checkpoints

 private:
  WrittenShards write(const SnapshotCollector::Pieces& pieces) const;
  void on_written(const SnapshotCollector::Pieces& pieces, const WrittenShards& made);

  CheckpointWriterOptions options_;
  SnapshotCollector collector_;
};

}  // namespace troupe
