#include "actors/data/batch_maker.h"

#include <fmt/format.h>

#include <exception>
#include <optional>
#include <system_error>

namespace troupe {

BatchMaker::BatchMaker(Dataset dataset, Split split, SampleTransform transform)
    : dataset_(std::move(dataset)), split_(split), transform_(std::move(transform)) {
  if (transform_.sample_shape() != dataset_.sample_shape())
    throw Error(ErrorCode::bad_shape, fmt::format("samples of {} in a transform for {}",
                                                  to_string(dataset_.sample_shape()),
                                                  to_string(transform_.sample_shape())));
}

template <class T>
void BatchMaker::fill(const MicroBatchPlan& plan, const Tensor& source,
                      const Tensor& images) const {
  const std::int64_t size = transform_.sample_shape().element_count();
  const std::uint8_t* pixels = source.data<std::uint8_t>();
  T* out = images.data<T>();
  for (std::uint32_t sample : plan.samples) {
    transform_.apply(pixels + sample * size, plan.epoch, sample, out);
    out += size;
  }
}

Batch BatchMaker::make(MicroBatchPlan plan) const {
  const std::int64_t count = dataset_.count(split_);
  for (std::uint32_t sample : plan.samples)
    if (sample >= count)
      throw Error(ErrorCode::internal, fmt::format("sample {} of {}", sample, count));
  const auto n = static_cast<std::int64_t>(plan.samples.size());
  const Shape& shape = transform_.sample_shape();
  const Tensor source = dataset_.images(split_);
  Tensor images = Tensor::empty(Shape{n, shape[0], shape[1], shape[2]}, transform_.dtype());
  if (transform_.dtype() == DType::f64)
    fill<double>(plan, source, images);
  else
    fill<float>(plan, source, images);

  Tensor labels = Tensor::empty(Shape{n}, DType::i64);
  const std::int64_t* from = dataset_.labels(split_).data<std::int64_t>();
  std::int64_t* to = labels.data<std::int64_t>();
  for (std::uint32_t sample : plan.samples) *to++ = from[sample];
  return {std::move(plan), std::move(images), std::move(labels)};
}

struct BatchWorkers::Job {
  MicroBatchPlan plan;
  std::optional<Result<Batch>> result;
};

BatchWorkers::BatchWorkers(BatchMaker maker, int workers, int credits, Deliver deliver)
    : maker_(std::move(maker)), credits_(credits), deliver_(std::move(deliver)) {
  if (workers < 0 || credits < 1)
    throw Error(ErrorCode::bad_options,
                fmt::format("{} data workers with {} batches in flight", workers, credits),
                "data.workers is at least 0, and one batch must be allowed");
  try {
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    stop();
    throw Error(ErrorCode::io,
                fmt::format("starting data worker {} of {}: {}", threads_.size() + 1, workers,
                            error.what()),
                "lower data.workers");
  }
}

BatchWorkers::~BatchWorkers() { stop(); }

bool BatchWorkers::request(MicroBatchPlan plan) {
  std::unique_lock lock(mutex_);
  if (stopped_ || in_flight_ >= credits_) return false;
  ++in_flight_;
  if (threads_.empty()) {
    lock.unlock();
    deliver_(make(std::move(plan)));
    lock.lock();
    --in_flight_;
    return true;
  }
  auto job = std::make_shared<Job>(Job{std::move(plan), {}});
  waiting_.push_back(job);
  ordered_.push_back(std::move(job));
  lock.unlock();
  wake_.notify_one();
  return true;
}

int BatchWorkers::in_flight() const {
  std::lock_guard lock(mutex_);
  return in_flight_;
}

void BatchWorkers::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    waiting_.clear();
  }
  wake_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

Result<Batch> BatchWorkers::make(MicroBatchPlan plan) const {
  try {
    return maker_.make(std::move(plan));
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ErrorCode::internal, fmt::format("preparing a batch: {}", error.what()));
  }
}

void BatchWorkers::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopped_ || !waiting_.empty(); });
    if (stopped_) return;
    const std::shared_ptr<Job> job = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    Result<Batch> made = make(std::move(job->plan));
    lock.lock();
    job->result = std::move(made);
    deliver_finished(lock);
  }
}

// One worker delivers at a time, so the order holds; the others leave what they finished to it.
void BatchWorkers::deliver_finished(std::unique_lock<std::mutex>& lock) {
  if (delivering_) return;
  delivering_ = true;
  while (!stopped_ && !ordered_.empty() && ordered_.front()->result) {
    const std::shared_ptr<Job> job = std::move(ordered_.front());
    ordered_.pop_front();
    lock.unlock();
    deliver_(std::move(*job->result));
    lock.lock();
    --in_flight_;
  }
  delivering_ = false;
}

}  // namespace troupe
