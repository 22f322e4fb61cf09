#include "actors/data/batch_maker.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/error.h"

namespace troupe {
namespace {

Dataset small_dataset() {
  return open_dataset({.name = "synthetic", .shape = Shape{2, 6, 6}, .classes = 4, .count = 60});
}

BatchMaker maker(Split split = Split::train, DType dtype = DType::f32) {
  const Dataset dataset = small_dataset();
  TransformOptions options{.mean = {0.5}, .std = {0.25}, .dtype = dtype};
  if (split == Split::train) options.augment = {Augment::flip, Augment::crop};
  return BatchMaker(dataset, split, SampleTransform(options, dataset.sample_shape()));
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::equal(a.raw(), a.raw() + a.bytes(), b.raw());
}

TEST(BatchMaker, GathersTheSamplesOfAPlanWithTheirLabels) {
  const Dataset dataset = small_dataset();
  const BatchMaker evaluation(dataset, Split::test,
                              SampleTransform({.std = {1.0 / 255}}, dataset.sample_shape()));
  const Batch batch = evaluation.make({.samples = {7, 2}});
  EXPECT_EQ(batch.samples.shape(), (Shape{2, 2, 6, 6}));
  EXPECT_EQ(batch.targets.shape(), Shape{2});
  const std::uint8_t* stored = dataset.images(Split::test).data<std::uint8_t>();
  for (std::int64_t i = 0; i < 72; ++i) {
    EXPECT_FLOAT_EQ(batch.samples.data<float>()[i], stored[std::int64_t{7} * 72 + i]);
    EXPECT_FLOAT_EQ(batch.samples.data<float>()[72 + i], stored[std::int64_t{2} * 72 + i]);
  }
  EXPECT_EQ(batch.targets.data<std::int64_t>()[0], 3);
  EXPECT_EQ(batch.targets.data<std::int64_t>()[1], 2);
}

TEST(BatchMaker, MakesASampleTheSameInEveryBatch) {
  const BatchMaker make = maker();
  const Batch alone = make.make({.epoch = 2, .samples = {11}});
  const Batch among = make.make({.step = 9, .epoch = 2, .samples = {3, 11, 5}});
  EXPECT_TRUE(same_bytes(alone.samples, among.samples.narrow(1, 1)));
}

TEST(BatchMaker, RefusesSamplesThatTheDatasetLacks) {
  EXPECT_THROW(maker().make({.samples = {60}}), Error);
}

TEST(BatchMaker, RefusesATransformForOtherSamples) {
  EXPECT_THROW(BatchMaker(small_dataset(), Split::train, SampleTransform({}, Shape{1, 6, 6})),
               Error);
}

}  // namespace
}  // namespace troupe
