#include "actors/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "ops/on_device.h"

namespace troupe {

Loader::Loader(LoaderOptions options)
    : options_(std::move(options)),
      sampler_(options_.sampler),
      train_(options_.dataset, Split::train, options_.transform, options_.mix),
      test_(options_.dataset, Split::test, options_.transform),
      stream_({.device = options_.device}) {
  if (options_.resident)
    check_resident(options_.transform, options_.mix, options_.dataset.samples(),
                   options_.dataset.name());
  if (options_.workers < 0 || options_.prefetch < 1)
    throw Error(
        ErrorCode::bad_options,
        fmt::format("`workers` is {} and `prefetch` is {}", options_.workers, options_.prefetch),
        "give at least 0 workers and a prefetch of at least 1");
}

void Loader::restore(const CommittedState&, std::uint32_t steps) {
  next_step_ = steps;
  // An earlier incarnation may have ended within the evaluation. The monitor drops scores that it
  // has already.
  const Timeline& timeline = options_.timeline;
  const bool is_due = steps > timeline.first || (steps > 0 && timeline.evaluates_first);
  if (is_due && timeline.evaluates_after(steps - 1)) add_evaluation(steps - 1);
}

bool Loader::ready() const {
  const bool prepared = !ahead_.empty() && ahead_.front().batch;
  return samples.has_slot() && targets.has_slot() && (prepared || can_request());
}

bool Loader::can_request() const {
  return ahead_.size() < static_cast<std::size_t>(options_.prefetch) &&
         (!pending_.empty() || next_step_ < options_.timeline.steps);
}

Waiting Loader::waiting() const {
  if (!samples.has_slot() || !targets.has_slot()) return Waiting::credit;
  return ahead_.empty() ? Waiting::other : Waiting::input;
}

// Requests what may be prepared ahead; sends what is prepared.
ActionLabel Loader::act() {
  fill_pending();
  request();
  if (ahead_.empty() || !ahead_.front().batch) return {"request", {next_step_, Purpose::train, 0}};
  const Header header = ahead_.front().header;
  Batch batch = std::move(ahead_.front().batch->value());  // throws what preparing it threw
  ahead_.pop_front();
  ++first_;
  samples.send(header, {samples_of(header, batch)});
  targets.send(header, {std::move(batch.targets), std::move(batch.partners), batch.share});
  return {"load", header.key};
}

// Test samples lie on the device as well: they are not augmented, so their windows are whole
// images.
Tensor Loader::samples_of(const Header& header, const Batch& batch) {
  const Stream& stream = stream_.get();
  if (!options_.resident) return on_device(stream, batch.samples);
  const Split split = header.key.purpose == Purpose::train ? Split::train : Split::test;
  const Tensor images = options_.resident->on_device(stream, split, batch.samples);
  return kernels(stream.device, DType::f32)
      .take_images(stream, images, on_device(stream, batch.windows));
}

void Loader::fill_pending() {
  while (pending_.size() < static_cast<std::size_t>(options_.prefetch) &&
         next_step_ < options_.timeline.steps)
    add_step();
}

void Loader::add_step() {
  const std::uint32_t step = next_step_++;
  for (MicroBatchSamples& samples : sampler_.micro_batches(step, options_.replica))
    pending_.push_back(std::move(samples));
  if (options_.timeline.evaluates_after(step)) add_evaluation(step);
}

// The batches are the same for any number of replicas, which take turns.
void Loader::add_evaluation(std::uint32_t step) {
  const auto& training = sampler_.options();
  const std::int64_t count = options_.dataset.count(Split::test);
  Sampler sampler = Sampler::for_evaluation(count, training);
  const std::int64_t total = sampler.batches_per_epoch();
  for (std::int64_t index = options_.replica; index < total; index += training.replicas) {
    MicroBatchSamples samples = std::move(sampler.micro_batches(index, 0).front());
    samples.header.key = {step, Purpose::evaluate, static_cast<std::uint32_t>(index)};
    samples.header.batch_samples = static_cast<std::uint32_t>(count);
    samples.header.micro_batches = static_cast<std::uint32_t>(total);
    pending_.push_back(std::move(samples));
  }
}

void Loader::request() {
  while (!pending_.empty() && can_request()) {
    MicroBatchSamples next = std::move(pending_.front());
    pending_.pop_front();
    const bool train = next.header.key.purpose == Purpose::train;
    const std::uint64_t number = first_ + ahead_.size();
    ahead_.push_back({next.header});
    prepare(number, train ? train_ : test_, std::move(next));
  }
}

void Loader::prepare(std::uint64_t number, const BatchMaker& maker, MicroBatchSamples samples) {
  const auto make = [&maker, resident = options_.resident != nullptr, wanted = std::move(samples)] {
    return resident ? maker.make_windows(wanted) : maker.make(wanted);
  };
  const auto put = [number](Loader& loader, Result<Batch> batch) {
    loader.ahead_[number - loader.first_].batch = std::move(batch);
  };
  if (options_.workers == 0) return put(*this, attempt(make));
  if (!workers_)
    workers_.emplace(WorkerPoolOptions{.name = "data worker",
                                       .threads = options_.workers,
                                       .capacity = static_cast<std::size_t>(options_.prefetch),
                                       .finishes = false});
  const bool taken = workers_->try_submit(make, [put, post = poster()](Result<Batch> batch) {
    const auto shared = std::make_shared<Result<Batch>>(std::move(batch));
    post([put, shared](Actor& self) { put(static_cast<Loader&>(self), std::move(*shared)); });
  });
  if (!taken) throw Error(ErrorCode::internal, "a loader requested more than its workers accept");
}

}  // namespace troupe
