#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/checkpoint_writer.h"
#include "actors/messages.h"
#include "runtime/background.h"
#include "runtime/flow/actor.h"

namespace troupe {

/// The checkpoint writer's hand in another process: collects the snapshots of the stages there,
/// writes them while training goes on, and tells the checkpoint writer, which publishes. So every
/// process writes what it holds, and none holds the whole model.
class ShardWriter final : public Actor {
 public:
  /// Of these, `stages`, `in_background` and `write_shards` count.
  using Options = CheckpointWriterOptions;
  explicit ShardWriter(CheckpointWriterOptions options) : options_(std::move(options)) {}

  Input<Snapshot> snapshot{this, "snapshot"};
  Output<WrittenShards> shards{this, "shards"};

  bool ready() const override { return snapshot.ready() && shards.has_slot(); }
  ActionLabel act() override;
  void on_commit(const Commit& commit) override;
  bool holds_run_open() const override { return true; }
  bool takes_snapshots() const override { return true; }
  FiringRules firing_rules() const override { return {}; }  // at the rate of checkpoints

 private:
  struct Job {
    MessageKey key;
    std::vector<Held<Snapshot>> snapshots;
  };
  WrittenShards write(const Job& job) const;
  void written(const Job& job, const WrittenShards& shards);
  void finish_if_done();

  CheckpointWriterOptions options_;
  std::map<std::uint32_t, Job> collecting_;
  std::uint32_t wanted_ = 0;  ///< newest step that a commit wants a snapshot of
  std::uint32_t done_ = 0;    ///< newest step whose shards were told of
  bool last_seen_ = false;
  std::optional<Background> background_;  ///< from the first snapshot on
};

}  // namespace troupe
