#include "actors/snapshot_collector.h"

#include <algorithm>

namespace troupe {

std::vector<Snapshot> SnapshotCollector::Pieces::states() const {
  std::vector<Snapshot> states;
  for (const auto& held : snapshots) states.push_back(*held);
  return states;
}

SnapshotCollector::PiecesPtr SnapshotCollector::take_complete(const MessageKey& key,
                                                              std::size_t snapshots,
                                                              std::size_t shards) {
  const auto open = collecting_.find(key.step);
  if (open == collecting_.end() || open->second.snapshots.size() < snapshots ||
      open->second.shards.size() < shards)
    return nullptr;
  const auto complete = std::make_shared<Pieces>(std::move(open->second));
  collecting_.erase(open);
  complete->steps = key.step + 1;
  std::ranges::sort(complete->snapshots, {}, [](const auto& held) { return held->stage; });
  return complete;
}

std::vector<SnapshotCollector::Pieces> SnapshotCollector::take_before(const Pieces& complete) {
  std::vector<Pieces> before;
  while (!collecting_.empty() && collecting_.begin()->first + 1 < complete.steps) {
    const auto oldest = collecting_.begin();
    oldest->second.steps = oldest->first + 1;
    before.push_back(std::move(oldest->second));
    collecting_.erase(oldest);
  }
  return before;
}

WorkerPool& SnapshotCollector::thread() {
  // Made when first used: the prototype of an actor needs none.
  if (!thread_)
    thread_.emplace(WorkerPoolOptions{.name = "checkpoints", .threads = in_background_ ? 1 : 0});
  return *thread_;
}

void SnapshotCollector::on_commit(const Commit& commit) {
  if (commit.snapshot) wanted_ = commit.step + 1;
  last_seen_ = commit.last;
}

}  // namespace troupe
