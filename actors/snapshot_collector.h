#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "actors/messages.h"
#include "runtime/flow/actor.h"
#include "runtime/worker_pool.h"

namespace troupe {

/// The common part of CheckpointWriter and ShardWriter: collects the pieces of a checkpoint, writes
/// them on another thread while training continues, and holds the run open until the last requested
/// checkpoint is written. Used by the thread of its actor.
class SnapshotCollector {
 public:
  /// The pieces of one checkpoint; they keep their slots until they are released.
  struct Pieces {
    std::uint32_t steps = 0;  ///< committed steps in it
    std::vector<Held<Snapshot>> snapshots;
    std::vector<Held<WrittenShards>> shards;

    std::vector<Snapshot> states() const;
  };
  using PiecesPtr = std::shared_ptr<const Pieces>;

  /// Writes on a thread of its own, or within an action.
  explicit SnapshotCollector(bool in_background) : in_background_(in_background) {}

  void add(Held<Snapshot> snapshot) {
    of(snapshot.header).snapshots.push_back(std::move(snapshot));
  }
  void add(Held<WrittenShards> shards) { of(shards.header).shards.push_back(std::move(shards)); }

  /// The pieces of the checkpoint that `key` belongs to, snapshots by stage. Returns null until
  /// this number of snapshots and shards has been added, and on every later call.
  PiecesPtr take_complete(const MessageKey& key, std::size_t snapshots, std::size_t shards);
  /// The pieces of earlier checkpoints without one of this sender. They stay incomplete, since it
  /// sends its pieces in order: a writer failed, and the sender of what it had taken.
  std::vector<Pieces> take_lost(const Header& piece);
  /// Whether it holds pieces of the checkpoint with so many steps, or writes it.
  bool holds(std::uint32_t steps) const {
    return collecting_.contains(steps - 1) || writing_.contains(steps);
  }
  /// The number of checkpoints that it holds pieces of or writes, with that of this piece.
  std::uint32_t count_with(const Header& piece) const {
    return static_cast<std::uint32_t>(collecting_.size() + writing_.size() +
                                      !collecting_.contains(piece.key.step));
  }

  /// Calls `work()` on the checkpoint thread, then `then(result)` on the actor's thread, through
  /// `post` (Actor::poster). Objects that they refer to must outlive the collector.
  template <class Work, class Then>
  void write(const std::function<void(Post)>& post, Work work, Then then) {
    const auto done = [this, post, then](auto made) {
      if (!in_background_) return then(std::move(made.value()));
      post([then, made = std::move(made)](Actor&) { then(made.value()); });
    };
    if (!thread().try_submit(std::move(work), done))
      throw Error(ErrorCode::internal, "more checkpoints are pending than a run requests");
  }

  void on_commit(const Commit& commit);
  void on_written(std::uint32_t steps) {
    written_ = steps;
    writing_.erase(steps);
  }
  /// The last step is committed, and all requested checkpoints are written.
  bool is_finished() const { return last_seen_ && written_ >= wanted_; }

 private:
  Pieces& of(const Header& header) { return collecting_[header.key.step]; }
  WorkerPool& thread();

  bool in_background_;
  std::map<std::uint32_t, Pieces> collecting_;  ///< by step
  std::set<std::uint32_t> writing_;             ///< Pieces::steps
  std::uint32_t wanted_ = 0;                    ///< newest that a commit wants a snapshot of
  std::uint32_t written_ = 0;                   ///< newest that was written, or could not be
  bool last_seen_ = false;
  std::optional<WorkerPool> thread_;  ///< from the first checkpoint on
};

}  // namespace troupe
