#include "actors/evaluate.h"

#include <algorithm>
#include <deque>
#include <future>
#include <memory>
#include <optional>

#include "actors/data/batch_maker.h"
#include "ops/loss.h"
#include "ops/nn/network.h"
#include "ops/on_device.h"
#include "runtime/device/own_stream.h"
#include "runtime/worker_pool.h"

namespace troupe {
namespace {

/// The batches of the test set in their order, of which `workers` threads prepare one each ahead.
class BatchesAhead {
 public:
  BatchesAhead(const BatchMaker& maker, Sampler sampler, int workers)
      : maker_(maker),
        sampler_(std::move(sampler)),
        ahead_(static_cast<std::size_t>(workers)),
        pool_({.name = "data worker",
               .threads = workers,
               .capacity = std::max<std::size_t>(1, ahead_),
               .finishes = false}) {}

  /// The next one, or nothing after the last. Throws what preparing it threw.
  std::optional<Batch> next() {
    request(std::max<std::size_t>(1, ahead_));
    if (batches_.empty()) return std::nullopt;
    std::future<Batch> first = std::move(batches_.front());
    batches_.pop_front();
    Batch batch = first.get();
    request(ahead_);
    return batch;
  }

 private:
  void request(std::size_t most) {
    for (; batches_.size() < most && step_ < sampler_.batches_per_epoch(); ++step_) {
      // A pool of no threads runs it here.
      const auto job = std::make_shared<std::packaged_task<Batch()>>(
          [this, samples = std::move(sampler_.micro_batches(step_, 0).front())] {
            return maker_.make(samples);
          });
      batches_.push_back(job->get_future());
      pool_.submit([job] { (*job)(); }, [](const Status&) {});
    }
  }

  const BatchMaker& maker_;
  Sampler sampler_;
  std::size_t ahead_;
  std::int64_t step_ = 0;
  std::deque<std::future<Batch>> batches_;
  WorkerPool pool_;  // last: its threads use the others
};

}  // namespace

Evaluation evaluate(const PipelineOptions& options, const TensorSource& weights) {
  check_loss(options);
  const OwnStream own(options.stream);
  const Stream& stream = own.get();
  Model model = model_of(options);
  const std::size_t blocks = model.blocks.size();
  Network network(std::move(model), 0, blocks, options.dtype, stream);
  network.use(on_device(stream, state_from(network.spec(), options.dtype, weights, 0,
                                           /*optimizer_state=*/{}, /*strict=*/true)));

  const Dataset& data = options.data.dataset;
  const TransformOptions transform = transform_options(options);
  if (const Tensor pixels = pixels_for(transform, data.samples()); pixels.defined())
    network.take_pixels(pixels);
  const BatchMaker maker(data, Split::test, transform);
  BatchesAhead batches(
      maker,
      Sampler::for_evaluation(data.count(Split::test), {.batch_size = options.batch_size,
                                                        .micro_batches = options.micro_batches}),
      options.data.workers);
  Evaluation result;
  std::int64_t correct = 0;
  while (const auto batch = batches.next()) {
    const LossOutput loss =
        loss_of(stream, options.loss, network.evaluate(batch->samples), batch->targets, 1.0,
                /*training=*/false);
    const LossTotals totals = read_totals(stream, loss);
    result.loss += totals.loss_sum;
    correct += totals.correct;
    result.count += batch->samples.dim(0);
  }
  result.loss /= static_cast<double>(result.count);
  result.correct = options.loss.has_accuracy() ? std::optional(correct) : std::nullopt;
  return result;
}

}  // namespace troupe
