// The numbers of a run are a function of the seed and the options that change them, not of how the
// work was partitioned, scheduled or interrupted.
#include <gmock/gmock.h>

#include "ops/backend.h"
#include "ops/optim/sgd.h"
#include "training_run.h"

namespace troupe {
namespace {

using testing::pipeline_of;
using testing::reported;
using testing::train;
using testing::TrainingResult;
using testing::TrainingRun;

constexpr auto gpipe = ScheduleKind::gpipe;

void expect_same(const TrainingResult& result, const TrainingResult& reference) {
  EXPECT_EQ(result.digest, reference.digest);
  EXPECT_EQ(reported(result), reported(reference));
}

const TrainingResult& reference() {
  static const TrainingResult result =
      train({.partition = {4}, .scheduling = Scheduling::deterministic});
  return result;
}

TEST(SameBits, TheReferenceRunIsWhole) {
  EXPECT_EQ(reference().digest.size(), 64u);
  EXPECT_EQ(reference().steps.size(), 6u);
  ASSERT_EQ(reference().evaluations.size(), 2u);
  EXPECT_EQ(reference().evaluations[0].step, 3u);
  EXPECT_EQ(reference().evaluations[1].step, 6u);
  for (const auto& evaluation : reference().evaluations) EXPECT_EQ(evaluation.count, 4);
}

TEST(SameBits, WhateverTheStagesTheScheduleAndTheOrderOfMessages) {
  for (const std::vector<std::size_t>& partition :
       {std::vector<std::size_t>{4}, {2, 2}, {1, 3}, {1, 1, 2}, {1, 1, 1, 1}})
    for (const auto& [name, schedule] : schedule_names)
      for (const std::uint64_t order : {0, 1, 2, 3}) {
        SCOPED_TRACE(::testing::Message()
                     << name << ", " << partition.size() << " stages, order " << order);
        expect_same(train({.partition = partition, .schedule = schedule, .order = order}),
                    reference());
      }
}

TEST(SameBits, WhateverTheReplicas) {
  for (const std::uint32_t replicas : {1, 2, 3, 4})
    for (const auto& [name, schedule] : schedule_names)
      for (const std::uint64_t order : {1, 2, 3}) {
        SCOPED_TRACE(::testing::Message()
                     << name << ", " << replicas << " replicas, order " << order);
        expect_same(train({.replicas = replicas, .schedule = schedule, .order = order}),
                    reference());
      }
}

TEST(SameBits, WhateverTheThreadsOfAKernel) {
  for (const char* model : {"mnist_cnn", "wide_resnet", "resnet18"}) {
    SCOPED_TRACE(model);
    TrainingRun run{.model = model, .steps = 2};
    const auto blocks = model_of(pipeline_of(run)).blocks.size();
    run.partition = {blocks};
    const TrainingResult one = train(run);
    run.partition = {1, blocks - 1};
    run.replicas = 2;
    for (const int threads : {2, 3}) {
      run.adjust = [threads](PipelineOptions& pipeline) { pipeline.stream.threads = threads; };
      expect_same(train(run), one);
    }
  }
}

TEST(SameBits, WhateverTheStagesAndReplicasWithFrozenParameters) {
  for (const std::vector<std::string>& frozen :
       {std::vector<std::string>{"*.bias"}, {"layer1.*", "layer2.*"}}) {
    TrainingRun run{.partition = {4}, .steps = 3};
    run.adjust = [&](PipelineOptions& pipeline) {
      pipeline.optimizer =
          Optimizer(Sgd{.momentum = 0.9})
              .with_clip_norm(0.5)
              .with_groups({{.parameters = frozen, .optimizer = Sgd{.momentum = 0.9}, .lr = 0.0}});
    };
    const TrainingResult one = train(run);
    for (const auto schedule :
         {ScheduleKind::one_forward_one_backward, ScheduleKind::zero_bubble_h1})
      for (const std::uint32_t replicas : {1, 2}) {
        run.partition = {2, 2};
        run.replicas = replicas;
        run.schedule = schedule;
        expect_same(train(run), one);
      }
  }
}

void one_block_a_bucket(PipelineOptions& pipeline) { pipeline.bucket_cap_bytes = 1; }

TEST(SameBits, WhateverTheGradientBuckets) {
  for (const std::vector<std::size_t>& partition :
       {std::vector<std::size_t>{4}, {2, 2}, {1, 1, 1, 1}})
    for (const std::uint32_t replicas : {1, 2, 3})
      for (const auto& [name, schedule] : schedule_names)
        for (const std::uint64_t order : {1, 2, 3}) {
          SCOPED_TRACE(::testing::Message() << name << ", " << partition.size() << " stages, "
                                            << replicas << " replicas, order " << order);
          expect_same(train({.partition = partition,
                             .replicas = replicas,
                             .schedule = schedule,
                             .order = order,
                             .adjust = one_block_a_bucket}),
                      reference());
        }
}

TEST(SameBits, OfAWideResNetInAnyBuckets) {
  TrainingRun run{.model = "wide_resnet", .partition = {12}, .steps = 3};
  const TrainingResult whole = train(run);
  for (const std::size_t cap : {1, 1500, 3000}) {
    SCOPED_TRACE(cap);
    run.adjust = [cap](PipelineOptions& pipeline) { pipeline.bucket_cap_bytes = cap; };
    EXPECT_GT(build_pipeline(pipeline_of(run)).actors().size(), 5u) << "there is one bucket";
    expect_same(train(run), whole);
  }
}

TEST(SameBits, WithAShortLastBatchAndAnOddNumberOfMicroBatches) {
  // Batches of 9, 9 and 2 samples in 5, 5 and 2 micro-batches.
  const TrainingRun odd{
      .partition = {4}, .micro_batches = 5, .batch_size = 9, .samples = 20, .drop_last = false};
  const TrainingResult one = train(odd);
  EXPECT_EQ(one.steps.at(2).samples, 2);
  for (const std::uint32_t replicas : {1, 2, 3, 5}) {
    SCOPED_TRACE(replicas);
    TrainingRun run = odd;
    run.partition = {1, 2, 1};
    run.replicas = replicas;
    expect_same(train(run), one);
    run.schedule = gpipe;
    expect_same(train(run), one);
  }
}

TEST(SameBits, WithReplicasThatHaveNothingToDo) {
  // One batch of 3 samples an epoch: an evaluation after each step, and a replica without a share.
  const TrainingRun tiny{.partition = {4}, .samples = 3, .drop_last = false};
  const TrainingResult one = train(tiny);
  EXPECT_EQ(one.evaluations.size(), 6u);
  for (const std::uint32_t replicas : {2, 4})
    for (const std::uint64_t order : {1, 2, 3, 4, 5}) {
      SCOPED_TRACE(::testing::Message() << replicas << " replicas, order " << order);
      TrainingRun run = tiny;
      run.partition = {2, 2};
      run.replicas = replicas;
      run.order = order;
      expect_same(train(run), one);
    }
}

TEST(SameBits, ResumedAtAnyStep) {
  const TrainingResult whole = train({.snapshot_every = 1});
  EXPECT_EQ(whole.digest, reference().digest);
  for (std::uint32_t step = 1; step < 6; ++step) {
    SCOPED_TRACE(step);
    // With another partition than the run that wrote it.
    const TrainingResult rest =
        train({.partition = {1, 2, 1}, .from = whole.written.at(step), .first_step = step});
    EXPECT_EQ(rest.digest, whole.digest);
    ASSERT_EQ(rest.steps.size(), 6u - step);
    for (const StepSeen& seen : rest.steps) EXPECT_EQ(seen.loss, whole.steps[seen.step - 1].loss);
    EXPECT_EQ(rest.evaluations.size(), step < 3 ? 2u : 1u);
    EXPECT_EQ(rest.evaluations.back().correct, whole.evaluations.back().correct);
  }
}

TEST(SameBits, ResumedWithParameterGroups) {
  const auto groups = [](PipelineOptions& pipeline) {
    const Optimizer rest = pipeline.optimizer;
    pipeline.optimizer =
        rest.with_groups({{.parameters = {"*.bias"}, .optimizer = Sgd{.weight_decay = 0.1}},
                          {.parameters = {"fc.weight"}, .optimizer = rest, .lr = 0.01}});
  };
  const TrainingResult whole = train({.snapshot_every = 1, .adjust = groups});
  EXPECT_NE(whole.digest, reference().digest);
  const TrainingResult rest = train(
      {.partition = {1, 2, 1}, .adjust = groups, .from = whole.written.at(2), .first_step = 2});
  EXPECT_EQ(rest.digest, whole.digest);
}

TEST(SameBits, OfAdamWWithClippedGradientsAndAMovingAverage) {
  const TrainingRun adamw{.partition = {4}, .snapshot_every = 1, .adjust = testing::use_adamw};
  const TrainingResult one = train(adamw);
  EXPECT_NE(one.digest, reference().digest);
  TrainingRun unclipped = adamw;
  unclipped.adjust = [](PipelineOptions& pipeline) {
    testing::use_adamw(pipeline);
    pipeline.optimizer = pipeline.optimizer.with_clip_norm(0);
  };
  EXPECT_NE(train(unclipped).digest, one.digest) << "nothing was clipped";
  TrainingRun plain = adamw;
  plain.adjust = [](PipelineOptions& pipeline) {
    testing::use_adamw(pipeline);
    pipeline.optimizer = pipeline.optimizer.with_average(0);
  };
  EXPECT_EQ(train(plain).digest, one.digest) << "an average does not change the weights";
  EXPECT_NE(train(plain).evaluations[1].loss, one.evaluations[1].loss) << "but is evaluated";
  const auto in_buckets = [](PipelineOptions& pipeline) {
    testing::use_adamw(pipeline);
    one_block_a_bucket(pipeline);
  };
  for (const std::vector<std::size_t>& partition :
       {std::vector<std::size_t>{4}, {2, 2}, {1, 1, 1, 1}})
    for (const std::uint32_t replicas : {1, 2, 3})
      for (const std::uint64_t order : {1, 2}) {
        SCOPED_TRACE(::testing::Message() << partition.size() << " stages, " << replicas
                                          << " replicas, order " << order);
        TrainingRun run{.partition = partition,
                        .replicas = replicas,
                        .order = order,
                        .adjust = testing::use_adamw};
        expect_same(train(run), one);
        run.adjust = in_buckets;
        expect_same(train(run), one);
      }
  for (std::uint32_t step = 1; step < 6; ++step) {
    const TrainingResult rest = train({.partition = {1, 2, 1},
                                       .replicas = 2,
                                       .adjust = testing::use_adamw,
                                       .from = one.written.at(step),
                                       .first_step = step});
    EXPECT_EQ(rest.digest, one.digest) << "resumed at step " << step;
    EXPECT_EQ(rest.evaluations.back().loss, one.evaluations.back().loss) << "of the average";
  }
}

TEST(SameBits, OfMixedSamples) {
  const auto mixed = [](PipelineOptions& pipeline) {
    pipeline.data.mix = {.mixup_alpha = 0.4, .cutmix_alpha = 1};
  };
  const TrainingResult one = train({.partition = {4}, .snapshot_every = 1, .adjust = mixed});
  EXPECT_NE(one.digest, reference().digest);
  expect_same(train({.partition = {1, 3}, .replicas = 3, .order = 2, .adjust = mixed}), one);
  expect_same(train({.faults = {{"loader", 2, 1, "load"}, {"loss", 3, 2, "L"}}, .adjust = mixed}),
              one);
  EXPECT_EQ(train({.adjust = mixed, .from = one.written.at(4), .first_step = 4}).digest,
            one.digest);
}

TEST(SameBits, OfAdamWAfterFaults) {
  const TrainingResult one = train({.partition = {4}, .adjust = testing::use_adamw});
  for (const FaultOptions& fault : std::vector<FaultOptions>{{"stage/0", 2, 1, "B"},
                                                             {"stage/1", 3, 0, "U"},
                                                             {"reducer/0", 4, 3, "R"},
                                                             {"stage/1", 2, 1, "Q"},
                                                             {"gradient_norm", 3, 0, "N"},
                                                             {"gradient_norm", 4, 0, "collect"},
                                                             {"loss", 1, 2, "L"},
                                                             {"loader", 5, 0, "load"}})
    for (const std::uint64_t order : {1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << fault.actor << ", order " << order);
      const TrainingResult result =
          train({.faults = {fault}, .order = order, .adjust = testing::use_adamw});
      EXPECT_EQ(result.failures.size(), 1u);
      expect_same(result, one);
    }
}

TEST(SameBits, OfAWideResNetWithDropout) {
  const TrainingRun one{.model = "wide_resnet", .partition = {12}, .steps = 3};
  const TrainingResult whole = train(one);
  TrainingRun parts = one;
  parts.partition = {3, 4, 2, 3};
  parts.replicas = 2;
  expect_same(train(parts), whole);
}

TEST(SameBits, OfAResNetInAnyStagesReplicasAndSchedules) {
  const TrainingRun one{.model = "resnet18", .partition = {13}, .steps = 3};
  const TrainingResult whole = train(one);
  for (const std::vector<std::size_t>& partition :
       {std::vector<std::size_t>{1, 2, 6, 4}, {7, 6}, {2, 1, 1, 1, 1, 1, 1, 1, 1, 3}})
    for (const std::uint32_t replicas : {1, 2})
      for (const auto& [name, schedule] : schedule_names) {
        SCOPED_TRACE(::testing::Message()
                     << name << ", " << partition.size() << " stages, " << replicas << " replicas");
        TrainingRun parts = one;
        parts.partition = partition;
        parts.replicas = replicas;
        parts.schedule = schedule;
        expect_same(train(parts), whole);
      }
}

TEST(SameBits, OfAResNetInAnyBucketsAndResumed) {
  TrainingRun run{.model = "resnet18", .partition = {13}, .steps = 3, .snapshot_every = 1};
  const TrainingResult whole = train(run);
  run.adjust = one_block_a_bucket;
  expect_same(train(run), whole);
  run.partition = {4, 9};
  run.from = whole.written.at(2);
  run.first_step = 2;
  EXPECT_EQ(train(run).digest, whole.digest);
}

TEST(SameBits, OfThePyTorchTutorialsNetwork) {
  const TrainingRun one{.model = "cifar_cnn", .partition = {12}, .steps = 3};
  const TrainingResult whole = train(one);
  TrainingRun parts = one;
  parts.partition = {2, 5, 5};
  parts.replicas = 2;
  expect_same(train(parts), whole);
}

TEST(SameBits, InDoublePrecision) {
  const TrainingResult one = train({.partition = {4}, .dtype = DType::f64});
  expect_same(train({.partition = {1, 3}, .replicas = 2, .dtype = DType::f64}), one);
  EXPECT_NE(one.digest, reference().digest);
}

TEST(SameBits, OfAWideResNetInMixedPrecision) {
  if (!backend({}).multiplies(DType::bf16)) GTEST_SKIP() << "no instructions for bf16 here";
  TrainingRun run{
      .model = "wide_resnet",
      .partition = {12},
      .steps = 3,
      .snapshot_every = 1,
      .adjust = [](PipelineOptions& options) { options.stream.products = DType::bf16; }};
  const TrainingResult whole = train(run);
  TrainingRun exact = run;
  exact.adjust = nullptr;
  EXPECT_NE(train(exact).digest, whole.digest);
  run.partition = {4, 8};
  run.replicas = 2;
  expect_same(train(run), whole);
  run.replicas = 1;
  run.adjust = [](PipelineOptions& options) {
    options.stream = {.threads = 3, .products = DType::bf16};
  };
  run.from = whole.written.at(2);
  run.first_step = 2;
  EXPECT_EQ(train(run).digest, whole.digest);
  run.from = train(exact).written.at(2);  // a checkpoint of another precision
  EXPECT_NE(train(run).digest, whole.digest);
}

TEST(SameBits, ButOthersForAnotherSeed) {
  const TrainingResult other = train({.seed = 2});
  EXPECT_NE(other.digest, reference().digest);
  EXPECT_NE(other.steps[0].loss, reference().steps[0].loss);
}

TEST(SameBitsThreadedActors, WhateverTheThreadsAndTheWorkers) {
  for (const int threads : {1, 2, 3})
    for (const int workers : {0, 1, 2})
      for (const std::uint32_t replicas : {1, 2}) {
        SCOPED_TRACE(::testing::Message() << threads << " threads, " << workers << " workers");
        expect_same(train({.replicas = replicas,
                           .workers = workers,
                           .scheduling = Scheduling::threads,
                           .threads = threads}),
                    reference());
      }
}

TEST(SameBitsThreadedActors, StoppedAndResumed) {
  for (std::uint32_t at = 1; at < 6; ++at) {
    SCOPED_TRACE(at);
    std::stop_source stop;
    const TrainingResult first = train({.workers = 1,
                                        .scheduling = Scheduling::threads,
                                        .stop = stop.get_token(),
                                        .on_step = [&](const StepSeen& seen) {
                                          if (seen.step == at) stop.request_stop();
                                        }});
    const std::uint32_t reached = first.report.steps;
    EXPECT_GE(reached, at);
    EXPECT_EQ(first.report.stopped, reached < 6);
    EXPECT_EQ(first.steps.size(), reached);
    ASSERT_TRUE(first.written.contains(reached));
    if (reached == 6) continue;
    const TrainingResult second = train({.workers = 2,
                                         .scheduling = Scheduling::threads,
                                         .from = first.written.at(reached),
                                         .first_step = reached});
    EXPECT_EQ(second.digest, reference().digest);
  }
}

}  // namespace
}  // namespace troupe
