#include "actors/evaluate.h"

#include "actors/data/batch_maker.h"
#include "ops/loss.h"
#include "ops/nn/network.h"
#include "ops/on_device.h"
#include "runtime/device/own_stream.h"

namespace troupe {

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
  Sampler sampler = Sampler::for_evaluation(
      data.count(Split::test),
      {.batch_size = options.batch_size, .micro_batches = options.micro_batches});
  Evaluation result;
  std::int64_t correct = 0;
  for (std::int64_t step = 0; step < sampler.batches_per_epoch(); ++step)
    for (const MicroBatchSamples& samples : sampler.micro_batches(step, 0)) {
      const Batch batch = maker.make(samples);
      const LossOutput loss =
          loss_of(stream, options.loss, network.evaluate(batch.samples), batch.targets, 1.0,
                  /*training=*/false);
      const LossTotals totals = read_totals(stream, loss);
      result.loss += totals.loss_sum;
      correct += totals.correct;
      result.count += batch.samples.dim(0);
    }
  result.loss /= static_cast<double>(result.count);
  result.correct = options.loss.has_accuracy() ? std::optional(correct) : std::nullopt;
  return result;
}

}  // namespace troupe
