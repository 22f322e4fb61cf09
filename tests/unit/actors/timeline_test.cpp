#include "actors/timeline.h"

#include <gtest/gtest.h>

#include "actors/data/sampler.h"
#include "runtime/error.h"

namespace troupe {
namespace {

TEST(Timeline, HasWholeEpochsOfASampler) {
  const Timeline timeline = timeline_of({.samples = 130, .batch_size = 64}, 3);
  EXPECT_EQ(timeline.steps_per_epoch, 2u);
  EXPECT_EQ(timeline.steps, 6u);
  EXPECT_TRUE(timeline.ends_epoch(1));
  EXPECT_FALSE(timeline.ends_epoch(2));
}

TEST(Timeline, CountsAShortLastBatchWhereItIsKept) {
  EXPECT_EQ(timeline_of({.samples = 130, .batch_size = 64, .drop_last = false}, 1).steps, 3u);
}

TEST(Timeline, RefusesMoreStepsThanMessagesCanCarry) {
  const SamplerOptions batches{.samples = 5000, .batch_size = 1};
  EXPECT_EQ(timeline_of(batches, 800'000).steps, 4'000'000'000u);
  EXPECT_THROW(timeline_of(batches, 900'000), Error);
  EXPECT_EQ(timeline_of(batches, 900'000, 7).steps, 7u) << "the run ends earlier";
}

TEST(Timeline, RefusesNoEpochAndMoreThanCanBeMultiplied) {
  for (const std::int64_t epochs : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 62}) {
    EXPECT_THROW(timeline_of({.samples = 130, .batch_size = 64}, epochs, 7), Error) << epochs;
    EXPECT_THROW(batches_in({.samples = 130, .batch_size = 64}, epochs), Error) << epochs;
  }
}

TEST(Timeline, RefusesASamplerThatCannotMakeABatch) {
  EXPECT_THROW(timeline_of({.samples = 10, .batch_size = 64}, 1), Error);
}

}  // namespace
}  // namespace troupe
