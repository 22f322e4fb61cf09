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
  writing_.insert(complete->steps);
  std::ranges::sort(complete->snapshots, {}, [](const auto& held) { return held->stage; });
  return complete;
}

std::vector<SnapshotCollector::Pieces> SnapshotCollector::take_lost(const Header& piece) {
  const auto is_of_sender = [&](const auto& held) { return held.header.edge == piece.edge; };
  std::vector<Pieces> lost;
  for (auto older = collecting_.begin();
       older != collecting_.end() && older->first < piece.key.step;) {
    const Pieces& pieces = older->second;
    if (std::ranges::any_of(pieces.snapshots, is_of_sender) ||
        std::ranges::any_of(pieces.shards, is_of_sender)) {
      ++older;
    } else {
      lost.push_back(std::move(older->second));
      older = collecting_.erase(older);
    }
  }
  return lost;
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
