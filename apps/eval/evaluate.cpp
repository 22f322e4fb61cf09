#include "apps/eval/evaluate.h"

#include <algorithm>

#include "actors/data/batch_maker.h"
#include "apps/options/options.h"
#include "ops/nn/network.h"
#include "ops/primitives/softmax_cross_entropy.h"

namespace troupe {

EvaluationReport evaluate(const Options& options, const TensorSource& weights, std::int64_t step) {
  const Dataset data = open_dataset(dataset_source(options), dataset_options(options));
  Model model = model_source(options).make(data.samples());
  const std::size_t blocks = model.blocks.size();
  const Stream& stream = options.pipeline.stream;
  Network network(std::move(model), 0, blocks, options.pipeline.dtype, stream);
  network.use(state_from(network.spec(), network.dtype(), weights, step,
                         /*optimizer_state=*/{}, /*strict=*/true));

  const BatchMaker maker(data, Split::test,
                         {.mean = options.pipeline.data.mean,
                          .std = options.pipeline.data.std,
                          .dtype = options.pipeline.dtype});
  // Batches of the loader's size: the order of a library's sums may depend on it.
  const std::int64_t size =
      std::max<std::int64_t>(1, options.pipeline.batch_size / options.pipeline.micro_batches);
  Sampler sampler = Sampler::for_evaluation(data.count(Split::test), size, 1, 1);
  EvaluationReport report;
  for (std::int64_t step = 0; step < sampler.batches_per_epoch(); ++step) {
    for (const auto& plan : sampler.plan(step, 0)) {
      const Batch batch = maker.make(plan);
      const LossOutput loss = softmax_cross_entropy(stream, network.evaluate(batch.samples),
                                                    batch.targets, 1.0, /*with_gradient=*/false);
      const LossTotals totals = read_totals(stream, loss);
      report.loss += totals.loss_sum;
      report.correct += totals.correct;
      report.count += batch.targets.element_count();
    }
  }
  report.loss /= static_cast<double>(report.count);
  return report;
}

}  // namespace troupe
