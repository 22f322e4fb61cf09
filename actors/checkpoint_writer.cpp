#include "actors/checkpoint_writer.h"

#include <algorithm>

namespace troupe {

CheckpointWriter::CheckpointWriter(CheckpointWriterOptions options)
    : options_(std::move(options)) {}

CheckpointWriter::~CheckpointWriter() = default;

ActionLabel CheckpointWriter::act() {
  auto held = snapshot.take();
  const MessageKey key = held.header.key;
  Job& open = collecting_[key.step];
  open.step = key.step + 1;
  open.snapshots.push_back(std::move(held));
  if (open.snapshots.size() < options_.stages) return {"S", key};
  Job job = std::move(open);
  collecting_.erase(key.step);
  std::ranges::sort(job.snapshots, {}, [](const auto& s) { return s->stage; });
  if (!options_.in_background) {
    const auto begin = std::chrono::steady_clock::now();
    const Status status = write(job);
    written(std::move(job), status, std::chrono::steady_clock::now() - begin);
    return {"S", key};
  }
  if (!thread_.joinable()) thread_ = std::jthread([this](std::stop_token stop) { work(stop); });
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  wake_.notify_one();
  return {"S", key};
}

Status CheckpointWriter::write(Job& job) {
  std::vector<Snapshot> snapshots;
  for (const auto& held : job.snapshots) snapshots.push_back(*held);
  try {
    return options_.write(job.step, snapshots);
  } catch (const std::exception& e) {
    return Error(ErrorCode::io, e.what());
  }
}

void CheckpointWriter::work(std::stop_token stop) {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (!wake_.wait(lock, stop, [&] { return !jobs_.empty(); })) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    const auto begin = std::chrono::steady_clock::now();
    const Status status = write(job);
    const auto duration = std::chrono::steady_clock::now() - begin;
    auto done = std::make_shared<Job>(std::move(job));
    poster()([done, status, duration](Actor& self) {
      static_cast<CheckpointWriter&>(self).written(std::move(*done), status, duration);
    });
  }
}

void CheckpointWriter::written(Job job, const Status& status, std::chrono::nanoseconds duration) {
  for (const auto& held : job.snapshots) snapshot.release(held);
  done_ = job.step;
  if (options_.on_checkpoint) options_.on_checkpoint({job.step, status, duration});
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
