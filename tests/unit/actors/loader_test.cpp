#include "actors/loader.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>

#include "actors/data/datasets.h"
#include "actors/data/memory_dataset.h"
#include "foreign_device.h"
#include "ops/on_device.h"
#include "runtime/flow/runtime_access.h"

namespace troupe {
namespace {

Dataset small_dataset() {
  return open_dataset(Synthetic{.shape = {2, 6, 6}, .classes = 4, .count = 60});
}

/// Four steps an epoch, the last one short, of up to two micro-batches; ten test samples in two.
LoaderOptions small_loader(int workers, int prefetch = 4) {
  return {.dataset = small_dataset(),
          .transform = {.augment = {Augment::flip, Augment::crop}, .mean = {0.5}, .std = {0.25}},
          .sampler = {.samples = 60, .batch_size = 16, .micro_batches = 2, .drop_last = false},
          .timeline = {.steps = 6, .steps_per_epoch = 4},
          .workers = workers,
          .prefetch = prefetch};
}

/// A loader without a runtime: what its workers post is kept until a test hands it over.
class Driven {
 public:
  explicit Driven(const LoaderOptions& options, std::uint32_t slots = 100)
      : box_(std::make_shared<Box>()), loader_(std::make_unique<Loader>(options)) {
    RuntimeAccess::attach(loader_->samples, 0, slots);
    RuntimeAccess::attach(loader_->targets, 1, slots);
    for (OutputPort* port : loader_->outputs()) RuntimeAccess::begin_incarnation(*port, 0);
    RuntimeAccess::set_poster(*loader_, [box = box_] {
      return [box](Post work) {
        const std::lock_guard lock(box->mutex);
        box->posts.push_back(std::move(work));
        box->came.notify_one();
      };
    });
  }

  Loader& loader() { return *loader_; }
  /// Acts as long as it is ready; what it sent on both ports, in order.
  std::vector<Packet> act() {
    std::vector<Packet> sent;
    while (loader_->ready()) {
      loader_->act();
      for (Packet& packet : std::exchange(RuntimeAccess::effects(*loader_), {}).packets)
        sent.push_back(std::move(packet));
    }
    return sent;
  }
  /// Waits for so many posts of workers.
  std::vector<Post> posts(std::size_t count) {
    std::unique_lock lock(box_->mutex);
    box_->came.wait(lock, [&] { return box_->posts.size() >= count; });
    return std::exchange(box_->posts, {});
  }
  /// All that it sends in its life.
  std::vector<Packet> run() {
    std::vector<Packet> all = act();
    while (loader_->waiting() == Waiting::input) {
      for (const Post& post : posts(1)) post(*loader_);
      for (Packet& packet : act()) all.push_back(std::move(packet));
    }
    return all;
  }

 private:
  struct Box {
    std::mutex mutex;
    std::condition_variable came;
    std::vector<Post> posts;
  };
  std::shared_ptr<Box> box_;  // outlives the workers
  std::unique_ptr<Loader> loader_;
};

const Tensor& images_of(const Packet& packet) {
  return static_cast<const Activation*>(packet.payload.get())->tensor;
}
const Tensor& targets_of(const Packet& packet) {
  return static_cast<const Targets*>(packet.payload.get())->tensor;
}
bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::equal(a.raw(), a.raw() + a.bytes(), b.raw());
}

struct Expected {
  MessageKey key;
  Batch batch;
};

/// What a loader of small_loader() has to send from step `first` on, to a stage on a device.
std::vector<Expected> expected(std::uint32_t first = 0, Device device = Device::cpu()) {
  LoaderOptions options = small_loader(0);
  options.transform.device = device;
  const BatchMaker train(options.dataset, Split::train, options.transform);
  const BatchMaker test(options.dataset, Split::test, options.transform);
  Sampler sampler(options.sampler), all = Sampler::for_evaluation(10, options.sampler);
  std::vector<Expected> result;
  for (std::uint32_t step = first; step < options.timeline.steps; ++step) {
    for (const auto& plan : sampler.micro_batches(step, 0))
      result.push_back({plan.header.key, train.make(plan)});
    if (!options.timeline.evaluates_after(step)) continue;
    for (std::uint32_t index = 0; index < 2; ++index)
      result.push_back(
          {{step, Purpose::evaluate, index}, test.make(all.micro_batches(index, 0).front())});
  }
  return result;
}

void expect_sent(const std::vector<Packet>& sent, const std::vector<Expected>& expected) {
  ASSERT_EQ(sent.size(), 2 * expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(sent[2 * i].header.key, expected[i].key) << i;
    EXPECT_TRUE(same_bytes(images_of(sent[2 * i]), expected[i].batch.samples)) << i;
    EXPECT_TRUE(same_bytes(targets_of(sent[2 * i + 1]), expected[i].batch.targets)) << i;
  }
}

class LoaderWithWorkers : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, LoaderWithWorkers, ::testing::Values(0, 1, 3));

TEST_P(LoaderWithWorkers, SendsTheSamplersMicroBatchesAndTheTestSetInOrder) {
  expect_sent(Driven(small_loader(GetParam())).run(), expected());
}

TEST_P(LoaderWithWorkers, BeginsAtTheStepThatIsNotWhole) {
  LoaderOptions options = small_loader(GetParam());
  options.timeline.first = 3;
  Driven driven(options);
  driven.loader().restore(nullptr, 3);
  expect_sent(driven.run(), expected(3));
}

TEST_P(LoaderWithWorkers, MayEndWithMicroBatchesUnderWay) {
  Driven driven(small_loader(GetParam()), 1);
  driven.act();
}

TEST_P(LoaderWithWorkers, SendsSamplesFromTheDeviceAndTargetsFromTheCpu) {
  for (const bool resident : {false, true}) {
    LoaderOptions options = small_loader(GetParam());
    options.device = options.transform.device = testing::foreign_device();
    const std::vector<Expected> wanted = expected(0, options.transform.device);
    if (resident) options.resident = std::make_shared<ResidentImages>();
    const Stream stream{.device = options.device};
    Driven driven(options);
    const std::vector<Packet> sent = driven.run();
    ASSERT_EQ(sent.size(), 2 * wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Tensor& images = images_of(sent[2 * i]);
      EXPECT_EQ(sent[2 * i].header.key, wanted[i].key) << i;
      EXPECT_EQ(images.device(), stream.device);
      EXPECT_TRUE(same_bytes(on_cpu(stream, images), wanted[i].batch.samples)) << i;
      EXPECT_TRUE(same_bytes(targets_of(sent[2 * i + 1]), wanted[i].batch.targets)) << i;
    }
  }
}

TEST(Loader, SendsInOrderWhateverIsPreparedFirst) {
  Driven driven(small_loader(1));
  EXPECT_THAT(driven.act(), ::testing::IsEmpty());
  std::vector<Post> posts = driven.posts(4);
  for (std::size_t i = 4; i-- > 1;) {
    posts[i](driven.loader());
    EXPECT_FALSE(driven.loader().ready()) << "the first is not there";
  }
  posts[0](driven.loader());
  const auto sent = driven.act();
  const auto wanted = expected();
  expect_sent(sent, {wanted.begin(), wanted.begin() + 4});
}

// A slow stage never makes it hold more, and the end of an epoch never less: the test set's first
// micro-batches are prepared with the last ones for training.
TEST(Loader, PreparesAsManyAheadAsItMay) {
  LoaderOptions options = small_loader(1, 6);
  options.timeline.steps_per_epoch = 2;
  Driven driven(options, 2);
  driven.act();
  for (const Post& post : driven.posts(6)) post(driven.loader());
  EXPECT_EQ(driven.act().size(), 4u);  // two on each port: no slot is left
  for (const Post& post : driven.posts(1)) post(driven.loader());
  EXPECT_FALSE(driven.loader().ready());
  EXPECT_EQ(driven.loader().waiting(), Waiting::credit);
}

TEST_P(LoaderWithWorkers, ThrowsWhatPreparingThrewInItsTurn) {
  LoaderOptions options = small_loader(GetParam(), 10);
  const Dataset whole = options.dataset;
  std::promise<Tensor> damaged;
  damaged.set_exception(std::make_exception_ptr(Error(ErrorCode::bad_file, "a damaged file")));
  MemoryDataset::Part test{whole.stored(Split::test)->targets, damaged.get_future().share()};
  MemoryDataset::Part train{whole.stored(Split::train)->targets,
                            std::async(std::launch::deferred, [=] {
                              return whole.stored(Split::train)->samples;
                            }).share()};
  options.dataset = std::make_shared<MemoryDataset>("damaged", whole.samples(), train, test);
  options.timeline.steps_per_epoch = 2;
  Driven driven(options);
  std::size_t sent = 0;
  const auto collect = [&] {
    while (driven.loader().ready()) {
      driven.loader().act();
      sent += std::exchange(RuntimeAccess::effects(driven.loader()), {}).packets.size();
    }
  };
  try {
    collect();
    for (;;) {
      for (const Post& post : driven.posts(1)) post(driven.loader());
      collect();
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
  }
  EXPECT_EQ(sent, 8u);  // on two ports, the two micro-batches of two steps
}

TEST(Loader, RefusesNumbersThatCannotWork) {
  EXPECT_THROW(Loader(small_loader(-1)), Error);
  EXPECT_THROW(Loader(small_loader(1, 0)), Error);
}

}  // namespace
}  // namespace troupe
