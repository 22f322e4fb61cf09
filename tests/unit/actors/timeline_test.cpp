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
  EXPECT_EQ(checked_steps(UINT32_MAX), UINT32_MAX);
  EXPECT_THROW(timeline_of({.samples = 130, .batch_size = 64}, 1LL << 32), Error);
  EXPECT_THROW(timeline_of({.samples = 130, .batch_size = 64}, -1), Error);
}

TEST(Timeline, RefusesASamplerThatCannotMakeABatch) {
  EXPECT_THROW(timeline_of({.samples = 10, .batch_size = 64}, 1), Error);
}

}  // namespace
}  // namespace troupe
