#include "actors/snapshot_collector.h"

#include <algorithm>

namespace troupe {

std::vector<Snapshot> SnapshotCollector::Pieces::states() const {
  std::vector<Snapshot> states;
  for (const auto& held : snapshots) states.push_back(*held);
  return states;
}

SnapshotCollector::PiecesPtr SnapshotCollector::take_whole(const MessageKey& key) {
  const auto open = collecting_.find(key.step);
  if (open == collecting_.end() || open->second.snapshots.size() < options_.stages ||
      open->second.shards.size() < options_.others)
    return nullptr;
  const auto whole = std::make_shared<Pieces>(std::move(open->second));
  collecting_.erase(open);
  whole->steps = key.step + 1;
  std::ranges::sort(whole->snapshots, {}, [](const auto& held) { return held->stage; });
  return whole;
}

WorkerPool& SnapshotCollector::thread() {
  // Made when first used: the prototype of an actor needs none.
  if (!thread_)
    thread_.emplace(
        WorkerPoolOptions{.name = "checkpoints", .threads = options_.in_background ? 1 : 0});
  return *thread_;
}

void SnapshotCollector::on_commit(const Commit& commit) {
  if (commit.snapshot) wanted_ = commit.step + 1;
  last_seen_ = commit.last;
}

}  // namespace troupe
