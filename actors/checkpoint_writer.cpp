#include "actors/checkpoint_writer.h"

#include <algorithm>

#include "actors/checkpoint_files.h"

namespace troupe {

CheckpointWriter::CheckpointWriter(CheckpointWriterOptions options)
    : options_(std::move(options)) {}

CheckpointWriter::~CheckpointWriter() = default;

ActionLabel CheckpointWriter::act() {
  const MessageKey key = snapshot.ready() ? snapshot.header().key : shards.header().key;
  Job& open = collecting_[key.step];
  open.step = key.step + 1;
  if (snapshot.ready()) {
    open.snapshots.push_back(snapshot.take());
  } else {
    open.shards.push_back(shards.take());
  }
  if (open.snapshots.size() < options_.stages || open.shards.size() < options_.others)
    return {"S", key};
  auto job = std::make_shared<Job>(std::move(open));
  collecting_.erase(key.step);
  std::ranges::sort(job->snapshots, {}, [](const auto& s) { return s->stage; });
  start(std::move(job));
  return {"S", key};
}

void CheckpointWriter::start(std::shared_ptr<Job> job) {
  // A prototype, which only tells its ports, needs no thread.
  if (!background_)
    background_.emplace(
        BackgroundOptions{.name = "checkpoints", .threads = options_.in_background ? 1 : 0});
  const bool taken =
      background_->try_submit([this, job] { return write(*job); },
                              [this, job](Result<CheckpointSeen> seen) {
                                if (!options_.in_background) return written(*job, seen.value());
                                poster()([job, seen = std::move(seen)](Actor& self) {
                                  static_cast<CheckpointWriter&>(self).written(*job, seen.value());
                                });
                              });
  if (!taken) throw Error(ErrorCode::internal, "more checkpoints wait than a run asks for");
}

CheckpointSeen CheckpointWriter::write(const Job& job) const {
  std::vector<Snapshot> snapshots;
  for (const auto& held : job.snapshots) snapshots.push_back(*held);
  std::vector<ShardInfo> elsewhere;
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& held : job.shards) {
    if (!held->error.empty())
      return {job.step, Error(ErrorCode::io, held->error),
              std::chrono::steady_clock::now() - begin};
    elsewhere.insert(elsewhere.end(), held->shards.begin(), held->shards.end());
  }
  Status status = attempt([&] { return write(job.step, snapshots, elsewhere); });
  return {job.step, std::move(status), std::chrono::steady_clock::now() - begin};
}

Status CheckpointWriter::write(std::uint32_t step, const std::vector<Snapshot>& snapshots,
                               const std::vector<ShardInfo>& elsewhere) const {
  if (options_.write) return options_.write(step, snapshots, elsewhere);
  Manifest manifest;
  manifest.step = step;
  manifest.options = options_.options;
  const auto made =
      write_snapshots(options_.folder, std::move(manifest), snapshots, options_.keep, elsewhere);
  if (!made) return made.error();
  return success();
}

void CheckpointWriter::written(const Job& job, const CheckpointSeen& seen) {
  for (const auto& held : job.snapshots) snapshot.release(held);
  for (const auto& held : job.shards) shards.release(held);
  done_ = seen.step;
  if (options_.on_checkpoint) options_.on_checkpoint(seen);
  accept_snapshots(true);
  finish_if_done();
}

void CheckpointWriter::on_commit(const Commit& commit) {
  if (commit.snapshot) wanted_ = commit.step + 1;
  last_seen_ = commit.last;
  finish_if_done();
}

void CheckpointWriter::finish_if_done() {
  if (last_seen_ && done_ >= wanted_) finish();
}

}  // namespace troupe
