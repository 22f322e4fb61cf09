// What a pipeline of actors calculates, against a plain loop over the whole model that shares only
// the layers, the data and the optimizer's formulas with it: no actors, partitions, replicas or
// trees.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include "actors/data/batch_maker.h"
#include "ops/loss.h"
#include "ops/nn/network.h"
#include "ops/optim/optimizers.h"
#include "training_run.h"

namespace troupe {
namespace {

using testing::pipeline_of;
using testing::train;
using testing::TrainingResult;
using testing::TrainingRun;

/// Sums in another order differ by less; any other formula by far more.
constexpr double tolerance = 1e-12;

/// Everything at once that enters the numbers: dropout, shuffling, augmentation, a short last
/// batch, a warm-up in front of a moving rate, momentum with Nesterov's look ahead, weight decay.
void use_every_option(PipelineOptions& pipeline) {
  pipeline.rate = {.schedule = LearningRateSchedule::one_cycle, .lr = 0.05, .warmup_steps = 2};
  pipeline.optimizer = Sgd{.momentum = 0.8, .weight_decay = 0.01, .nesterov = true};
  pipeline.data.mean = {0.3};
  pipeline.data.std = {0.4};
}

/// The same, with what excludes some of them: Adam of clipped gradients and smoothed labels, and a
/// polynomial rate. The decay is a part of the gradient: biases before a batch norm have no other,
/// and Adam would enlarge rounding errors.
void use_adam(PipelineOptions& pipeline) {
  use_every_option(pipeline);
  testing::use_adamw(pipeline);
  pipeline.optimizer = Optimizer(Adam{.weight_decay = 0.1}).with_clip_value(0.01);
  pipeline.rate.warmup_steps = 2;
}

/// Two epochs of batches of 8, 8 and 6 samples.
TrainingRun run_of(std::vector<std::size_t> partition, std::uint32_t replicas,
                   std::uint32_t micro_batches) {
  return {.seed = 5,
          .dropout = 0.2,
          .partition = std::move(partition),
          .replicas = replicas,
          .micro_batches = micro_batches,
          .samples = 22,
          .drop_last = false,
          .dtype = DType::f64,
          .adjust = use_every_option};
}

struct PlainResult {
  std::vector<NamedTensor> tensors;  ///< weights, buffers and momentum
  std::vector<double> losses;        ///< mean of each step
  std::vector<double> test_losses;   ///< mean over the test set, after each epoch
};

class PlainLoop {
 public:
  explicit PlainLoop(const TrainingRun& run)
      : options_(pipeline_of(run)),
        loader_(loader_options(options_, 0)),
        rate_(learning_rate_options(options_)),
        network_(whole(options_)),
        batches_(one_replica(loader_.sampler)),
        samples_(loader_.dataset, Split::train, loader_.transform) {
    network_.use(initial_state(network_.spec(), DType::f64, options_.seed));
  }

  PlainResult run() {
    PlainResult result;
    const std::int64_t per_epoch = batches_.batches_per_epoch();
    for (std::uint32_t step = 0; step < loader_.timeline.steps; ++step) {
      result.losses.push_back(do_step(step));
      if ((step + 1) % per_epoch == 0) result.test_losses.push_back(test_loss());
    }
    result.tensors = named_tensors(network_.spec(), *network_.state(), true);
    return result;
  }

 private:
  static Network whole(const PipelineOptions& options) {
    Model model = model_of(options);
    const std::size_t blocks = model.blocks.size();
    return {std::move(model), 0, blocks, DType::f64, {}};
  }

  static SamplerOptions one_replica(SamplerOptions options) {
    options.replicas = 1;
    return options;
  }

  double do_step(std::uint32_t step) {
    const auto elements = network_.spec().parameter_elements();
    Tensor gradient = Tensor::zeros(Shape{elements}, DType::f64);
    std::vector<Tensor> statistics;
    double loss_sum = 0;
    double samples = 0;
    const auto plans = batches_.micro_batches(step, 0);
    for (const MicroBatchSamples& plan : plans) samples += static_cast<double>(plan.samples.size());
    for (const MicroBatchSamples& plan : plans) {
      const Batch batch = samples_.make(plan);
      const RandomKey random{options_.seed, step, plan.header.key.micro_batch};
      const auto pass = network_.forward(batch.samples, random, false);
      const LossOutput loss = softmax_cross_entropy(
          {}, pass->result(), batch.targets, 1.0 / samples, true, options_.loss.label_smoothing);
      network_.backward(*pass, loss.logits_grad);
      for (std::int64_t e = 0; e < elements; ++e)
        gradient.data<double>()[e] += pass->gradients.data<double>()[e];
      statistics.push_back(pass->statistics);
      loss_sum += read_totals({}, loss).loss_sum;
    }
    on_their_way_.emplace_back(gradient, statistics);
    apply_oldest(step);
    return loss_sum / samples;
  }

  /// The sum of so many steps before; in the first ones there is none.
  void apply_oldest(std::uint32_t step) {
    if (on_their_way_.size() <= options_.staleness) return;
    const auto [gradient, statistics] = on_their_way_.front();
    on_their_way_.pop_front();
    network_.use(
        network_.step(options_.optimizer, learning_rate(rate_, step), gradient, statistics));
  }

  double test_loss() {
    const Dataset& dataset = loader_.dataset;
    MicroBatchSamples all;
    for (std::uint32_t s = 0; s < dataset.count(Split::test); ++s) all.samples.push_back(s);
    const Batch batch = BatchMaker(dataset, Split::test, loader_.transform).make(all);
    const Tensor logits = network_.evaluate(batch.samples);
    return read_totals({}, softmax_cross_entropy({}, logits, batch.targets, 1.0, false)).loss_sum /
           static_cast<double>(all.samples.size());
  }

  PipelineOptions options_;
  LoaderOptions loader_;
  LearningRateOptions rate_;
  Network network_;
  Sampler batches_;
  BatchMaker samples_;
  std::deque<std::pair<Tensor, std::vector<Tensor>>> on_their_way_;
};

/// The largest difference of two tensors, relative to the largest element.
double difference(const Tensor& a, const Tensor& b) {
  if (a.dtype() == DType::i64) {  // a counter
    EXPECT_EQ(a.data<std::int64_t>()[0], b.data<std::int64_t>()[0]);
    return 0.0;
  }
  double apart = 0, largest = 0;
  for (std::int64_t e = 0; e < a.element_count(); ++e) {
    apart = std::max(apart, std::abs(a.data<double>()[e] - b.data<double>()[e]));
    largest = std::max(largest, std::abs(b.data<double>()[e]));
  }
  return std::isfinite(largest) && largest > 0 ? apart / largest : apart;
}

void expect_same_tensors(const std::vector<NamedTensor>& pipeline,
                         const std::vector<NamedTensor>& plain) {
  std::map<std::string, Tensor> found;
  for (const NamedTensor& tensor : pipeline) found[tensor.name] = tensor.tensor;
  EXPECT_EQ(found.size(), plain.size());
  for (const NamedTensor& tensor : plain) {
    ASSERT_TRUE(found.contains(tensor.name)) << tensor.name;
    ASSERT_EQ(found[tensor.name].shape(), tensor.tensor.shape()) << tensor.name;
    EXPECT_LT(difference(found[tensor.name], tensor.tensor), tolerance) << tensor.name;
  }
}

void expect_plain_arithmetic(const TrainingRun& run) {
  const PlainResult plain = PlainLoop(run).run();
  const TrainingResult pipeline = train(run);
  ASSERT_EQ(pipeline.steps.size(), plain.losses.size());
  for (std::size_t s = 0; s < plain.losses.size(); ++s)
    EXPECT_NEAR(pipeline.steps[s].loss, plain.losses[s], tolerance * plain.losses[s]) << s;
  ASSERT_EQ(pipeline.evaluations.size(), plain.test_losses.size());
  for (std::size_t e = 0; e < plain.test_losses.size(); ++e)
    EXPECT_NEAR(pipeline.evaluations[e].loss, plain.test_losses[e],
                tolerance * plain.test_losses[e]);
  ASSERT_FALSE(pipeline.written.empty());
  expect_same_tensors(pipeline.written.rbegin()->second, plain.tensors);
}

TEST(PipelineArithmetic, IsThatOfAPlainLoopForOneStage) {
  for (const std::uint32_t micro_batches : {1, 3, 4})
    expect_plain_arithmetic(run_of({4}, 1, micro_batches));
}

TEST(PipelineArithmetic, IsThatOfAPlainLoopForSeveralStages) {
  expect_plain_arithmetic(run_of({2, 2}, 1, 4));
  expect_plain_arithmetic(run_of({1, 2, 1}, 1, 4));
  TrainingRun flushed = run_of({1, 2, 1}, 1, 3);
  flushed.schedule = ScheduleKind::gpipe;
  expect_plain_arithmetic(flushed);
}

TEST(PipelineArithmetic, IsThatOfAPlainLoopForReplicas) {
  expect_plain_arithmetic(run_of({4}, 2, 4));
  expect_plain_arithmetic(run_of({2, 2}, 2, 5));
  expect_plain_arithmetic(run_of({1, 2, 1}, 2, 4));
}

TEST(PipelineArithmetic, IsThatOfAPlainLoopThatAppliesSumsLater) {
  for (const std::uint32_t staleness : {1, 2, 3})
    for (const auto& [partition, replicas] :
         std::vector<std::pair<std::vector<std::size_t>, std::uint32_t>>{
             {{4}, 1}, {{4}, 4}, {{2, 2}, 2}}) {
      TrainingRun late = run_of(partition, replicas, 4);
      late.adjust = [staleness](PipelineOptions& pipeline) {
        use_every_option(pipeline);
        pipeline.staleness = staleness;
      };
      expect_plain_arithmetic(late);
    }
}

TEST(PipelineArithmetic, IsThatOfAPlainLoopWithAdam) {
  for (const std::uint32_t staleness : {0, 2})
    for (const std::uint32_t replicas : {1, 2}) {
      TrainingRun run = run_of({1, 2, 1}, replicas, 4);
      run.adjust = [staleness](PipelineOptions& pipeline) {
        use_adam(pipeline);
        pipeline.staleness = staleness;
      };
      expect_plain_arithmetic(run);
    }
}

// The small network has neither batch norm nor dropout.
TEST(PipelineArithmetic, IsThatOfAPlainLoopForAModelWithStatisticsAndDropout) {
  for (const std::uint32_t replicas : {1, 2})
    for (const std::vector<std::size_t>& partition : {std::vector<std::size_t>{12}, {4, 3, 5}}) {
      TrainingRun resnet = run_of(partition, replicas, 3);
      resnet.model = "wide_resnet";
      resnet.samples = 10;  // batches of 8 and 2 samples
      resnet.steps = 4;
      expect_plain_arithmetic(resnet);
    }
}

TEST(PipelineArithmetic, ClipsTheNormOfTheWholeModelsGradient) {
  constexpr double lr = 0.5, limit = 0.01;  // far below the gradient's norm
  for (const std::vector<std::size_t>& partition : {std::vector<std::size_t>{4}, {1, 3}, {1, 1, 2}})
    for (const std::uint32_t replicas : {1, 2}) {
      SCOPED_TRACE(::testing::Message()
                   << partition.size() << " stages, " << replicas << " replicas");
      TrainingRun run = run_of(partition, replicas, 4);
      run.steps = 3;
      run.snapshot_every = 1;
      run.adjust = [&](PipelineOptions& pipeline) {
        pipeline.rate = {.schedule = LearningRateSchedule::constant, .lr = lr};
        pipeline.optimizer = Optimizer(Sgd{.momentum = 0}).with_clip_norm(limit);
      };
      const std::vector<std::string> names = parameter_names(model_of(pipeline_of(run)));
      const TrainingResult result = train(run);
      for (std::uint32_t step = 1; step < 3; ++step) {
        double sum = 0;
        for (std::size_t i = 0; i < result.written.at(step).size(); ++i) {
          const auto& [name, before] = result.written.at(step)[i];
          if (std::ranges::find(names, name) == names.end()) continue;
          const Tensor& after = result.written.at(step + 1)[i].tensor;
          for (std::int64_t e = 0; e < before.element_count(); ++e)
            sum += std::pow(after.data<double>()[e] - before.data<double>()[e], 2);
        }
        EXPECT_NEAR(std::sqrt(sum), lr * limit, 1e-6 * lr * limit) << "step " << step;
      }
    }
}

}  // namespace
}  // namespace troupe
