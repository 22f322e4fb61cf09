#include "actors/checkpoint_writer.h"

#include <algorithm>

namespace troupe {

CheckpointWriter::CheckpointWriter(CheckpointWriterOptions options)
    : options_(std::move(options)) {}

CheckpointWriter::~CheckpointWriter() = default;

ActionLabel CheckpointWriter::act() {
  auto held = snapshot.take();
  const MessageKey key = held.header.key;
  Job& job = collecting_[key.step];
  job.step = key.step + 1;
  job.snapshots.push_back(std::move(held));
  if (job.snapshots.size() == options_.stages) {
    if (!thread_.joinable()) thread_ = std::jthread([this](std::stop_token stop) { work(stop); });
    ++busy_;
    const std::lock_guard lock(mutex_);
    job_ = std::move(job);
    collecting_.erase(key.step);
    wake_.notify_one();
  }
  return {"S", key};
}

void CheckpointWriter::work(std::stop_token stop) {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (!wake_.wait(lock, stop, [&] { return job_.has_value(); })) return;
    Job job = std::move(*job_);
    job_.reset();
    lock.unlock();
    std::ranges::sort(job.snapshots, {}, [](const auto& s) { return s->stage; });
    std::vector<Snapshot> snapshots;
    for (const auto& held : job.snapshots) snapshots.push_back(*held);
    const auto begin = std::chrono::steady_clock::now();
    const Status status = [&]() -> Status {
      try {
        return options_.write(job.step, snapshots);
      } catch (const std::exception& e) {
        return Error(ErrorCode::io, e.what());
      }
    }();
    const auto duration = std::chrono::steady_clock::now() - begin;
    auto done = std::make_shared<Job>(std::move(job));
    poster()([done, status, duration](Actor& self) {
      static_cast<CheckpointWriter&>(self).written(std::move(*done), status, duration);
    });
  }
}

void CheckpointWriter::written(Job job, const Status& status, std::chrono::nanoseconds duration) {
  --busy_;
  for (const auto& held : job.snapshots) snapshot.release(held);
  if (options_.on_checkpoint) options_.on_checkpoint({job.step, status, duration});
  accept_snapshots(true);
  const bool last_written = !last_wanted_ || job.step >= *last_wanted_;
  if (last_seen_ && busy_ == 0 && last_written) finish();
}

void CheckpointWriter::on_commit(const Commit& commit) {
  if (!commit.last) return;
  last_seen_ = true;
  if (commit.snapshot) {
    last_wanted_ = commit.step + 1;
  } else if (busy_ == 0 && collecting_.empty()) {
    finish();
  }
}

}  // namespace troupe
