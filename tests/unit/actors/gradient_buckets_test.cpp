#include "actors/gradient_buckets.h"

#include <gmock/gmock.h>

#include "actors/pipeline_bytes.h"
#include "training_run.h"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using testing::pipeline_of;
using testing::TrainingRun;

TEST(GradientBuckets, AreFilledFromTheLastBlockOnUpToTheCap) {
  EXPECT_THAT(gradient_buckets({3, 4, 5, 6}, 11), ElementsAre(2, 2));
  EXPECT_THAT(gradient_buckets({3, 4, 5, 6}, 10), ElementsAre(1, 2, 1));
  EXPECT_THAT(gradient_buckets({3, 4, 5, 6}, 18), ElementsAre(4));
}

TEST(GradientBuckets, HoldABlockAloneThatIsLargerThanTheCap) {
  EXPECT_THAT(gradient_buckets({2, 2, 100, 2, 2}, 10), ElementsAre(2, 1, 2));
  EXPECT_THAT(gradient_buckets({100}, 1), ElementsAre(1));
}

TEST(GradientBuckets, HaveWeightsWhereThereAreAny) {
  EXPECT_THAT(gradient_buckets({5, 0, 5, 0}, 1), ElementsAre(3, 1));
  EXPECT_THAT(gradient_buckets({0, 0, 5}, 1), ElementsAre(3));
  EXPECT_THAT(gradient_buckets({0, 0}, 1), ElementsAre(2));
}

TEST(GradientBuckets, OfAStageHoldItsWholeGradientForAnyPartition) {
  TrainingRun run{.model = "wide_resnet", .partition = {4, 8}};
  PipelineOptions one = pipeline_of(run), each = pipeline_of(run);
  each.bucket_cap_bytes = 1;
  for (const std::size_t stage : {0, 1}) {
    const auto whole = bucket_bytes(one, stage), parts = bucket_bytes(each, stage);
    ASSERT_EQ(whole.size(), 1u);
    EXPECT_GT(parts.size(), 2u);
    BucketBytes sum;
    for (const BucketBytes& part : parts) {
      EXPECT_GT(part.weights, 0u);
      sum.blocks += part.blocks;
      sum.weights += part.weights;
      sum.statistics += part.statistics;
    }
    EXPECT_EQ(sum.blocks, run.partition[stage]);
    EXPECT_EQ(sum.weights, whole[0].weights);
    EXPECT_EQ(sum.statistics, whole[0].statistics);
    EXPECT_EQ(parts[0].statistics, whole[0].statistics);
  }
}

}  // namespace
}  // namespace troupe
