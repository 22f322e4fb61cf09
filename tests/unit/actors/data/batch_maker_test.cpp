#include "actors/data/batch_maker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

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

/// The plans of two epochs; plan i has micro-batch-sized steps of its own.
std::vector<MicroBatchPlan> plans() {
  Sampler sampler({.samples = 60, .batch_size = 16, .micro_batches = 2, .drop_last = false});
  std::vector<MicroBatchPlan> all;
  for (std::int64_t step = 0; step < 2 * sampler.batches_per_epoch(); ++step)
    for (auto& plan : sampler.plan(step, 0)) all.push_back(std::move(plan));
  return all;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::equal(a.raw(), a.raw() + a.bytes(), b.raw());
}

/// Feeds all plans through workers as credits allow, and gathers what is delivered.
std::vector<Result<Batch>> through_workers(const std::vector<MicroBatchPlan>& wanted, int workers,
                                           int credits) {
  std::mutex mutex;
  std::condition_variable delivered;
  std::vector<Result<Batch>> results;
  BatchWorkers batches(maker(), workers, credits, [&](Result<Batch> result) {
    std::lock_guard lock(mutex);
    results.push_back(std::move(result));
    delivered.notify_one();
  });
  std::size_t requested = 0;
  while (requested < wanted.size()) {
    if (batches.request(wanted[requested]))
      ++requested;
    else
      std::this_thread::yield();
  }
  std::unique_lock lock(mutex);
  delivered.wait(lock, [&] { return results.size() == wanted.size(); });
  return results;
}

TEST(BatchMaker, GathersTheSamplesOfAPlanWithTheirLabels) {
  const Dataset dataset = small_dataset();
  const BatchMaker evaluation(dataset, Split::test,
                              SampleTransform({.std = {1.0 / 255}}, dataset.sample_shape()));
  const Batch batch = evaluation.make({.samples = {7, 2}});
  EXPECT_EQ(batch.images.shape(), (Shape{2, 2, 6, 6}));
  EXPECT_EQ(batch.labels.shape(), Shape{2});
  const std::uint8_t* stored = dataset.images(Split::test).data<std::uint8_t>();
  for (std::int64_t i = 0; i < 72; ++i) {
    EXPECT_FLOAT_EQ(batch.images.data<float>()[i], stored[7 * 72 + i]);
    EXPECT_FLOAT_EQ(batch.images.data<float>()[72 + i], stored[2 * 72 + i]);
  }
  EXPECT_EQ(batch.labels.data<std::int64_t>()[0], 3);
  EXPECT_EQ(batch.labels.data<std::int64_t>()[1], 2);
}

TEST(BatchMaker, MakesASampleTheSameInEveryBatch) {
  const BatchMaker make = maker();
  const Batch alone = make.make({.epoch = 2, .samples = {11}});
  const Batch among = make.make({.step = 9, .epoch = 2, .samples = {3, 11, 5}});
  EXPECT_TRUE(same_bytes(alone.images, among.images.narrow(1, 1)));
}

TEST(BatchMaker, RefusesSamplesThatTheDatasetLacks) {
  EXPECT_THROW(maker().make({.samples = {60}}), Error);
}

TEST(BatchMaker, RefusesATransformForOtherSamples) {
  EXPECT_THROW(BatchMaker(small_dataset(), Split::train, SampleTransform({}, Shape{1, 6, 6})),
               Error);
}

class BatchWorkersOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, BatchWorkersOf, testing::Values(0, 1, 3));

TEST_P(BatchWorkersOf, DeliverTheSameBytesInTheOrderOfTheRequests) {
  const auto wanted = plans();
  const BatchMaker reference = maker();
  const auto results = through_workers(wanted, GetParam(), 4);
  ASSERT_EQ(results.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Batch expected = reference.make(wanted[i]);
    EXPECT_TRUE(same_bytes(results[i].value().images, expected.images)) << i;
    EXPECT_TRUE(same_bytes(results[i].value().labels, expected.labels)) << i;
  }
}

TEST_P(BatchWorkersOf, DeliverAFailureInItsTurnAndGoOn) {
  auto wanted = plans();
  wanted[3].samples = {1000000};
  const auto results = through_workers(wanted, GetParam(), 3);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_EQ(static_cast<bool>(results[i]), i != 3) << i;
  EXPECT_EQ(results[3].error().code(), ErrorCode::internal);
}

TEST_P(BatchWorkersOf, MayBeStoppedWithRequestsInFlight) {
  std::atomic<int> delivered{0};
  BatchWorkers batches(maker(), GetParam(), 8, [&](const Result<Batch>&) { ++delivered; });
  for (const auto& plan : plans()) (void)batches.request(plan);
  batches.stop();
  const int before = delivered;
  EXPECT_FALSE(batches.request(plans()[0]));
  batches.stop();
  EXPECT_EQ(delivered, before);
}

TEST(BatchWorkers, RefuseARequestBeyondTheirCredits) {
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  std::atomic<int> delivered{0};
  const auto all = plans();
  BatchWorkers batches(maker(), 2, 2, [&](const Result<Batch>&) {
    opened.wait();
    ++delivered;
  });
  EXPECT_TRUE(batches.request(all[0]));
  EXPECT_TRUE(batches.request(all[1]));
  EXPECT_FALSE(batches.request(all[2]));  // the first delivery still waits at the gate
  gate.set_value();
  for (const int i : {2, 3, 4})  // as credits come back
    while (!batches.request(all[i])) std::this_thread::yield();
  EXPECT_GE(delivered, 3);
}

TEST(BatchWorkers, TakeRequestsFromWithinADelivery) {
  const auto all = plans();
  std::promise<void> done;
  std::atomic<std::size_t> next{1};
  BatchWorkers* self = nullptr;
  BatchWorkers batches(maker(), 2, 2, [&](const Result<Batch>&) {
    const std::size_t index = next++;
    if (index == all.size()) return done.set_value();
    EXPECT_TRUE(self->request(all[index]));
  });
  self = &batches;
  EXPECT_TRUE(batches.request(all[0]));
  done.get_future().wait();
}

TEST(BatchWorkers, RefuseNumbersThatCannotWork) {
  const auto ignore = [](const Result<Batch>&) {};
  EXPECT_THROW(BatchWorkers(maker(), -1, 2, ignore), Error);
  EXPECT_THROW(BatchWorkers(maker(), 1, 0, ignore), Error);
}

}  // namespace
}  // namespace troupe
