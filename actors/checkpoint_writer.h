#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/messages.h"
#include "actors/snapshot_collector.h"
#include "runtime/flow/actor.h"

namespace troupe {

/// Reports a checkpoint that was written, or that failed.
struct CheckpointSeen {
  std::uint32_t step = 0;  ///< committed steps in it
  Status status = success();
  std::chrono::nanoseconds duration{0};
};

/// The checkpoints that commits have requested. They belong to the run: the writer's next
/// incarnation continues with them.
struct RequestedCheckpoints {
  std::set<std::uint32_t> open;  ///< steps of those that are not reported
  std::uint32_t reported = 0;    ///< step of the newest that is
};

struct CheckpointWriterOptions {
  bool in_background = true;  ///< write on a thread of its own, not within an action
  /// Where checkpoints are written. After a failure, shards that other processes have written there
  /// are removed, also when `write` is set.
  std::filesystem::path folder;
  std::size_t keep = 3;   ///< newest ones kept there; 0: all
  std::string options;    ///< for the manifest (options_text); build_pipeline knows them
  std::string optimizer;  ///< its name, for the manifest; build_pipeline knows it
  /// Replaces write_snapshots. Takes the snapshots by stage and the shards of other processes.
  std::function<Status(std::uint32_t step, const std::vector<Snapshot>&,
                       const std::vector<ShardInfo>& elsewhere)>
      write;
  /// Replaces write_snapshot_shards in other processes.
  std::function<Result<std::vector<ShardInfo>>(std::uint32_t step, const std::vector<Snapshot>&)>
      write_shards;
  /// Called on an actor thread after each; must not block.
  std::function<void(const CheckpointSeen&)> on_checkpoint;
  /// Shared by the incarnations of one writer, and by no other writer.
  std::shared_ptr<RequestedCheckpoints> requested = std::make_shared<RequestedCheckpoints>();
};

/// Collects the snapshots of a step, one from each connected stage, and writes them while training
/// continues. Snapshots share the committed states, so no state in the CPU's memory is copied and
/// no stage waits. While it writes, only the last commit requests another snapshot. In each other
/// process, a ShardWriter writes the stages of that process. The checkpoint is published when all
/// shards are written.
///
///     auto writer = graph.add<CheckpointWriter>("writer", {.folder = "checkpoints"});
class CheckpointWriter final : public Actor {
 public:
  using Options = CheckpointWriterOptions;
  explicit CheckpointWriter(CheckpointWriterOptions options);

  Input<Snapshot> snapshot{this, "snapshot"};
  Input<WrittenShards> shards{this, "shards", Connection::optional};

  bool ready() const override { return snapshot.ready() || shards.ready(); }
  ActionLabel act() override;
  void on_commit(const Commit& commit) override;
  bool outlives_steps() const override { return true; }
  bool takes_snapshots() const override { return true; }
  void begin_run() override { *options_.requested = {}; }
  FiringRules firing_rules() const override { return {}; }  // at the rate of checkpoints

 private:
  CheckpointSeen write(const SnapshotCollector::Pieces& pieces) const;
  Status publish(const SnapshotCollector::Pieces& pieces) const;
  Status write(std::uint32_t step, const std::vector<Snapshot>& snapshots,
               const std::vector<ShardInfo>& elsewhere) const;
  void release(const SnapshotCollector::Pieces& pieces);
  /// Gives up the checkpoints before this piece that lack one of its sender.
  void give_up_before(const Header& piece);
  void report(const CheckpointSeen& seen);
  void on_written(const SnapshotCollector::Pieces& pieces, const CheckpointSeen& seen);

  CheckpointWriterOptions options_;
  SnapshotCollector collector_;
};

}  // namespace troupe
