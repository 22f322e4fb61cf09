#include "actors/data/batch_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

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

Batch BatchMaker::make(const MicroBatchPlan& plan) const {
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
  auto* to = labels.data<std::int64_t>();
  for (std::uint32_t sample : plan.samples) *to++ = from[sample];
  return {std::move(images), std::move(labels)};
}

struct BatchWorkers::Job {
  MicroBatchPlan plan;
  std::optional<Result<Batch>> result;
};

BatchWorkers::BatchWorkers(BatchMaker maker, int workers, int credits, Deliver deliver)
    : maker_(std::move(maker)),
      credits_(credits),
      deliver_(std::move(deliver)),
      background_({.name = "data worker",
                   .threads = workers,
                   .capacity = static_cast<std::size_t>(std::max(credits, 0)),
                   .finishes = false}) {}

BatchWorkers::~BatchWorkers() { stop(); }

bool BatchWorkers::request(MicroBatchPlan plan) {
  auto job = std::make_shared<Job>(Job{std::move(plan), {}});
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || in_flight_ >= credits_) return false;
    ++in_flight_;
    ordered_.push_back(job);
  }
  return background_.try_submit([this, job] { return maker_.make(job->plan); },
                                [this, job](Result<Batch> made) { deliver(job, std::move(made)); });
}

void BatchWorkers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  background_.stop();
}

// One worker delivers at a time, so the order holds; the others leave what they finished to it.
void BatchWorkers::deliver(const std::shared_ptr<Job>& job, Result<Batch> made) {
  std::unique_lock lock(mutex_);
  job->result = std::move(made);
  if (delivering_) return;
  delivering_ = true;
  while (!stopped_ && !ordered_.empty() && ordered_.front()->result) {
    const std::shared_ptr<Job> first = std::move(ordered_.front());
    ordered_.pop_front();
    lock.unlock();
    deliver_(std::move(*first->result));
    lock.lock();
    --in_flight_;
  }
  delivering_ = false;
}

}  // namespace troupe
