#include "actors/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "runtime/error.h"

namespace troupe {
namespace {

/// Many data sets, batches, micro-batches and replicas; `check` gets each with a Sampler's options.
void for_many_sizes(bool drop_last, const std::function<void(const SamplerOptions&)>& check) {
  for (std::int64_t samples : {1, 2, 7, 64, 100, 129})
    for (std::int64_t batch_size : {1, 3, 16, 64, 200})
      for (std::int64_t micro_batches : {1, 2, 3, 4, 8})
        for (std::int64_t replicas : {1, 2, 3}) {
          SCOPED_TRACE(testing::Message() << samples << " samples, batches of " << batch_size
                                          << " in " << micro_batches << " for " << replicas);
          check({.seed = 7,
                 .samples = samples,
                 .batch_size = batch_size,
                 .micro_batches = micro_batches,
                 .replicas = replicas,
                 .drop_last = drop_last});
        }
}

/// All micro-batches of a step, in the order of the replicas.
std::vector<MicroBatchSamples> whole_step(Sampler& sampler, std::int64_t step) {
  std::vector<MicroBatchSamples> all;
  for (std::int64_t replica = 0; replica < sampler.options().replicas; ++replica)
    for (auto& plan : sampler.micro_batches(step, replica)) all.push_back(std::move(plan));
  return all;
}

/// How often an epoch shows each sample.
std::vector<int> times_seen(Sampler& sampler) {
  std::vector<int> seen(static_cast<std::size_t>(sampler.options().samples));
  for (std::int64_t step = 0; step < sampler.batches_per_epoch(); ++step)
    for (const auto& plan : whole_step(sampler, step))
      for (std::uint32_t sample : plan.samples) ++seen.at(sample);
  return seen;
}

TEST(Sampler, ShowsEachSampleOnceAnEpochWithoutDropping) {
  for_many_sizes(false, [](const SamplerOptions& options) {
    Sampler sampler(options);
    const auto seen = times_seen(sampler);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), options.samples);
  });
}

TEST(Sampler, DropsOnlyTheSamplesThatFillNoBatch) {
  for_many_sizes(true, [](const SamplerOptions& options) {
    if (options.samples < options.batch_size) {
      EXPECT_THROW(Sampler{options}, Error);
      return;
    }
    Sampler sampler(options);
    const auto seen = times_seen(sampler);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), options.samples % options.batch_size);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1),
              options.samples - options.samples % options.batch_size);
  });
}

TEST(Sampler, NumbersMicroBatchesFromZeroAndLeavesNoneEmpty) {
  for_many_sizes(false, [](const SamplerOptions& options) {
    Sampler sampler(options);
    for (std::int64_t step = 0; step < 2 * sampler.batches_per_epoch(); ++step) {
      const auto plans = whole_step(sampler, step);
      std::int64_t samples = 0;
      std::uint32_t index = 0;
      std::size_t smallest = plans.at(0).samples.size(), largest = 0;
      for (const auto& plan : plans) {
        const MessageKey key{static_cast<std::uint32_t>(step), Purpose::train, index++};
        EXPECT_EQ(plan.header.key, key);
        EXPECT_EQ(plan.epoch, step / sampler.batches_per_epoch());
        EXPECT_EQ(plan.header.samples, plan.samples.size());
        EXPECT_EQ(plan.header.micro_batches, plans.size());
        samples += static_cast<std::int64_t>(plan.samples.size());
        smallest = std::min(smallest, plan.samples.size());
        largest = std::max(largest, plan.samples.size());
      }
      EXPECT_EQ(samples, plans[0].header.batch_samples);
      EXPECT_GE(smallest, 1u);
      EXPECT_LE(largest - smallest, 1u);
    }
  });
}

TEST(Sampler, HasTheSameMicroBatchesWhateverTheReplicas) {
  for_many_sizes(false, [](const SamplerOptions& options) {
    SamplerOptions alone = options;
    alone.replicas = 1;
    Sampler one(alone), many(options);
    for (std::int64_t step = 0; step < one.batches_per_epoch(); ++step)
      EXPECT_EQ(whole_step(one, step), whole_step(many, step));
  });
}

TEST(Sampler, GivesEachReplicaItsShareOfTheMicroBatches) {
  Sampler sampler({.samples = 64, .batch_size = 64, .micro_batches = 8, .replicas = 2});
  const auto first = sampler.micro_batches(0, 0), second = sampler.micro_batches(0, 1);
  ASSERT_EQ(first.size(), 4u);
  ASSERT_EQ(second.size(), 4u);
  EXPECT_EQ(first.back().header.key.micro_batch, 3u);
  EXPECT_EQ(second.front().header.key.micro_batch, 4u);
}

TEST(Sampler, MakesOneMicroBatchASampleWhereTheLastBatchIsTiny) {
  Sampler sampler({.samples = 18, .batch_size = 16, .micro_batches = 4, .drop_last = false});
  EXPECT_EQ(sampler.batches_per_epoch(), 2);
  EXPECT_EQ(sampler.micro_batch_count(0), 4);
  EXPECT_EQ(sampler.micro_batch_count(1), 2);
  const auto plans = sampler.micro_batches(1, 0);
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[1].samples.size(), 1u);
}

TEST(Sampler, GivesTheSamePlanAfterAJumpAsInSequence) {
  const SamplerOptions options{.samples = 100, .batch_size = 32, .micro_batches = 2};
  Sampler sequential(options), resumed(options);
  std::vector<MicroBatchSamples> last;
  for (std::int64_t step = 0; step <= 7; ++step) last = sequential.micro_batches(step, 0);
  EXPECT_EQ(last.front().epoch, 2);
  EXPECT_EQ(resumed.micro_batches(7, 0), last);
}

TEST(Sampler, EvaluatesEachSampleOnceInStoredOrder) {
  auto sampler = Sampler::for_evaluation(10, {.batch_size = 8, .micro_batches = 2, .replicas = 2});
  EXPECT_EQ(sampler.batches_per_epoch(), 3);  // of 4, 4 and 2 samples
  std::vector<std::uint32_t> seen;
  for (std::int64_t step = 0; step < sampler.batches_per_epoch(); ++step)
    for (const auto& plan : sampler.micro_batches(step, 0))
      seen.insert(seen.end(), plan.samples.begin(), plan.samples.end());
  std::vector<std::uint32_t> all(10);
  std::iota(all.begin(), all.end(), 0u);
  EXPECT_EQ(seen, all);
}

TEST(EpochOrder, IsTheStoredOrderWithoutShuffling) {
  const auto order = epoch_order({.samples = 5, .shuffle = false}, 3);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 1, 2, 3, 4}));
}

// Calculated apart from this code, from the definition: a resumed run relies on it.
TEST(EpochOrder, IsTheDocumentedFunctionOfSeedAndEpoch) {
  const SamplerOptions options{.seed = 1, .samples = 8};
  EXPECT_EQ(epoch_order(options, 0), (std::vector<std::uint32_t>{0, 5, 2, 3, 1, 4, 7, 6}));
  EXPECT_EQ(epoch_order(options, 1), (std::vector<std::uint32_t>{6, 1, 0, 5, 4, 7, 3, 2}));
}

TEST(EpochOrder, DiffersBetweenEpochsAndSeeds) {
  const SamplerOptions one{.seed = 1, .samples = 1000}, other{.seed = 2, .samples = 1000};
  EXPECT_NE(epoch_order(one, 0), epoch_order(one, 1));
  EXPECT_NE(epoch_order(one, 0), epoch_order(other, 0));
}

TEST(EpochOrder, PutsEverySampleEverywhereEquallyOften) {
  constexpr std::size_t n = 5;
  constexpr int epochs = 5000;
  std::array<std::array<int, n>, n> hits{};
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto order = epoch_order({.samples = n}, epoch);
    for (std::size_t at = 0; at < n; ++at) ++hits[at][order[at]];
  }
  constexpr int expected = epochs / static_cast<int>(n);  // 1000, a standard deviation of 28
  for (const auto& row : hits)
    for (int hit : row) EXPECT_NEAR(hit, expected, 5 * 28);
}

TEST(Sampler, RefusesSizesThatMakeNoBatch) {
  EXPECT_THROW(Sampler({.samples = 0}), Error);
  EXPECT_THROW(Sampler({.samples = 10, .batch_size = 0}), Error);
  EXPECT_THROW(Sampler({.samples = 100, .micro_batches = 0}), Error);
  EXPECT_THROW(Sampler({.samples = 100, .replicas = -1}), Error);
  EXPECT_THROW(Sampler({.samples = std::int64_t{1} << 40}), Error);
  try {
    const Sampler refused({.samples = 10, .batch_size = 64});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_options);
    EXPECT_NE(error.remedy().find("drop_last"), std::string::npos);
  }
}

}  // namespace
}  // namespace troupe
