#include "actors/data/batch_maker.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "actors/data/datasets.h"
#include "ops/kernels.h"
#include "runtime/error.h"
#include "runtime/tensor/backend.h"

namespace troupe {
namespace {

Dataset small_dataset() {
  return open_dataset(Synthetic{.shape = {2, 6, 6}, .classes = 4, .count = 60});
}

BatchMaker maker(Split split = Split::train, DType dtype = DType::f32) {
  return BatchMaker(
      small_dataset(), split,
      {.augment = {Augment::flip, Augment::crop}, .mean = {0.5}, .std = {0.25}, .dtype = dtype});
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::equal(a.raw(), a.raw() + a.bytes(), b.raw());
}

TEST(BatchMaker, GathersTheSamplesOfAPlanWithTheirLabels) {
  const Dataset dataset = small_dataset();
  const BatchMaker evaluation(dataset, Split::test, {.std = {1.0 / 255}});
  const Batch batch = evaluation.make({.samples = {7, 2}});
  EXPECT_EQ(batch.samples.shape(), (Shape{2, 2, 6, 6}));
  EXPECT_EQ(batch.targets.shape(), Shape{2});
  const std::uint8_t* stored = dataset.stored(Split::test)->samples.data<std::uint8_t>();
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
  const Batch among =
      make.make({.header = {.key = {.step = 9}}, .epoch = 2, .samples = {3, 11, 5}});
  EXPECT_TRUE(same_bytes(alone.samples, among.samples.narrow(1, 1)));
}

TEST(BatchMaker, AppliesATransformOfOnesOwnByEpochAndSample) {
  const auto shift = [](const Tensor& sample, const RandomKey& key) {
    const float by = uniform_float(key.block(0)[0]);
    for (float& value : sample.elements<float>()) value += by;
  };
  const TransformOptions options{.mean = {0.5}, .own = shift};
  const BatchMaker make(small_dataset(), Split::train, options);
  const BatchMaker plain(small_dataset(), Split::train, {.mean = {0.5}});
  const Batch among = make.make({.epoch = 2, .samples = {3, 11, 5}});
  const Batch alone = make.make({.epoch = 2, .samples = {11}});
  const Batch later = make.make({.epoch = 3, .samples = {11}});
  const Batch without = plain.make({.epoch = 2, .samples = {11}});
  EXPECT_TRUE(same_bytes(alone.samples, among.samples.narrow(1, 1)));
  EXPECT_FALSE(same_bytes(alone.samples, later.samples));
  EXPECT_FALSE(same_bytes(alone.samples, without.samples));
  const float by = alone.samples.elements<float>()[0] - without.samples.elements<float>()[0];
  EXPECT_NEAR(alone.samples.elements<float>()[71] - without.samples.elements<float>()[71], by,
              1e-6);
  const BatchMaker test(small_dataset(), Split::test, options);
  const BatchMaker plain_test(small_dataset(), Split::test, {.mean = {0.5}});
  EXPECT_TRUE(
      same_bytes(test.make({.samples = {1}}).samples, plain_test.make({.samples = {1}}).samples));
}

TEST(BatchMaker, NamesATransformOfOnesOwnThatMakesNan) {
  const auto spoil = [](const Tensor& sample, const RandomKey&) {
    sample.elements<float>()[4] = std::nanf("");
  };
  const BatchMaker make(small_dataset(), Split::train, {.own = spoil});
  try {
    (void)make.make({.samples = {3, 7}});
    FAIL() << "nan was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(),
                testing::AllOf(testing::HasSubstr("training sample 3 of "),
                               testing::HasSubstr("has nan at number 5 of "),
                               testing::HasSubstr("after the program's own transform")));
  }
}

CachingAllocator& host_memory(std::int16_t) {
  static auto* memory = new CachingAllocator;
  return *memory;
}
/// A device that nothing computes on.
constexpr Backend named_only{.name = "named", .host_allocator = host_memory};
constexpr Device named_device{&named_only, 0};

TEST(BatchMaker, GivesADeviceBytesUnlessNormalisedNumbersChange) {
  struct Case {
    const char* what;
    TransformOptions transform = {};
    MixOptions mix = {};
    DType type = DType::u8;
  };
  const Case cases[] = {
      {"unchanged"},
      {"moved", {.augment = {Augment::flip, Augment::crop}}},
      {"of other parts", {.augment = {Augment::random_resized_crop, Augment::flip}}},
      {"erased", {.augment = {Augment::flip, Augment::random_erasing}}, {}, DType::f32},
      {"changed by the program", {.own = [](const Tensor&, const RandomKey&) {}}, {}, DType::f32},
      {"mixed", {}, {.mixup_alpha = 1}, DType::f32}};
  for (const auto& [what, transform, mix, type] : cases) {
    SCOPED_TRACE(what);
    TransformOptions options = transform;
    options.mean = {0.5}, options.std = {0.3};
    const auto make = [&, mix = mix](Split split, Device device) {
      options.device = device;
      return BatchMaker(small_dataset(), split, options, mix).make({.samples = {3, 0, 8}}).samples;
    };
    for (const Split split : {Split::train, Split::test}) {
      const Tensor given = make(split, named_device), numbers = make(split, Device::cpu());
      EXPECT_EQ(given.dtype(), split == Split::test ? DType::u8 : type);
      EXPECT_EQ(given.storage()->allocator(), &host_memory(0));
      EXPECT_EQ(numbers.dtype(), DType::f32);
      if (given.dtype() != DType::u8) {
        EXPECT_TRUE(same_bytes(given, numbers));
        continue;
      }
      options.device = named_device;
      const Tensor pixels = pixels_for(options, small_dataset().samples());
      EXPECT_TRUE(same_bytes(kernels({}, DType::f32).look_up({}, given, pixels, Layout::row_major),
                             numbers));
    }
    EXPECT_EQ(training_type(small_dataset().samples(), options, mix), type);
  }
}

TEST(BatchMaker, MakesWindowsOfStoredImagesThatHaveTheBytesOfABatch) {
  using Augmentations = std::vector<Augment>;
  const Dataset data = small_dataset();
  for (const Augmentations& augment :
       {Augmentations{}, Augmentations{Augment::flip}, Augmentations{Augment::crop, Augment::flip},
        Augmentations{Augment::vertical_flip, Augment::crop, Augment::flip}})
    for (const Split split : {Split::train, Split::test}) {
      const BatchMaker windowed(data, split, {.augment = augment, .device = named_device});
      for (const std::int64_t epoch : {0, 1, 2}) {
        const MicroBatchSamples wanted{.epoch = epoch, .samples = {3, 0, 8, 8, 5, 1, 2, 9}};
        const Batch made = windowed.make(wanted), windows = windowed.make_windows(wanted);
        EXPECT_TRUE(same_bytes(windows.targets, made.targets));
        EXPECT_EQ(windows.samples.raw(), data.stored(split)->samples.raw()) << "not copied";
        EXPECT_EQ(windows.windows.storage()->allocator(), &host_memory(0));
        const Tensor taken =
            kernels({}, DType::f32).take_images({}, windows.samples, windows.windows);
        EXPECT_TRUE(same_bytes(taken, made.samples));
      }
    }
  EXPECT_THROW(maker().make_windows({.samples = {60}}), Error);
}

TEST(BatchMaker, GivesADeviceNumbersOfOtherSamplesThanImagesOfBytes) {
  const TransformOptions options{.dtype = DType::f64, .device = named_device};
  for (const SampleSpec& samples :
       {SampleSpec{.shape = {6}, .dtype = DType::u8}, SampleSpec{.shape = {2, 3, 3}}}) {
    EXPECT_EQ(training_type(samples, options, {}), DType::f64);
    EXPECT_FALSE(pixels_for(options, samples).defined());
  }
  EXPECT_FALSE(pixels_for({}, small_dataset().samples()).defined()) << "on the CPU";
}

TEST(BatchMaker, RefusesSamplesThatTheDatasetLacks) {
  EXPECT_THROW(maker().make({.samples = {60}}), Error);
}

TEST(BatchMaker, TakesRandomPartsOfStoredImages) {
  const BatchMaker make(small_dataset(), Split::train,
                        {.augment = {Augment::random_resized_crop, Augment::crop}});
  const BatchMaker plain(small_dataset(), Split::train, {});
  const MicroBatchSamples wanted{.epoch = 1, .samples = {3, 11, 5}};
  EXPECT_TRUE(same_bytes(make.make(wanted).samples, make.make(wanted).samples));
  EXPECT_FALSE(same_bytes(make.make(wanted).samples, plain.make(wanted).samples));
  EXPECT_FALSE(same_bytes(make.make(wanted).samples,
                          make.make({.epoch = 2, .samples = wanted.samples}).samples));
  EXPECT_TRUE(same_bytes(make.make(wanted).targets, plain.make(wanted).targets));
  EXPECT_TRUE(same_bytes(make.make(wanted).samples.narrow(1, 1),
                         make.make({.epoch = 1, .samples = {11}}).samples));
}

/// Sample i of a split is i, twice, and its target the negative of that.
class Pairs : public SampleReader {
 public:
  explicit Pairs(DType dtype) : dtype_(dtype) {}
  std::string_view name() const override { return "pairs"; }
  SampleSpec samples() const override {
    return {.shape = {2}, .dtype = dtype_, .classes = 10, .target_shape = {3}};
  }
  std::int64_t count(Split) const override { return 10; }
  void read(Split, std::int64_t index, Tensor sample, Tensor target) const override {
    if (dtype_ == DType::u8)
      std::ranges::fill(sample.elements<std::uint8_t>(), static_cast<std::uint8_t>(index));
    else if (dtype_ == DType::i64)
      std::ranges::fill(sample.elements<std::int64_t>(), index);
    else
      std::ranges::fill(sample.elements<float>(), static_cast<float>(index));
    std::ranges::fill(target.elements<std::int64_t>(), -index);
  }

 private:
  DType dtype_;
};

TEST(BatchMaker, ReadsSamplesAndTargetsOfAnyShapeAndType) {
  for (const DType dtype : {DType::f32, DType::i64, DType::u8}) {
    SCOPED_TRACE(name_of(dtype));
    const Dataset dataset = std::make_shared<Pairs>(dtype);
    const Batch batch =
        BatchMaker(dataset, Split::train, {.std = {1.0 / 255}}).make({.samples = {4, 9}});
    ASSERT_EQ(batch.samples.shape(), (Shape{2, 2}));
    EXPECT_EQ(batch.samples.dtype(), dtype == DType::u8 ? DType::f32 : dtype);
    for (std::int64_t i = 0; i < 4; ++i) {
      const std::int64_t wanted = i < 2 ? 4 : 9;
      if (dtype == DType::i64)
        EXPECT_EQ(batch.samples.data<std::int64_t>()[i], wanted);
      else
        EXPECT_FLOAT_EQ(batch.samples.data<float>()[i], static_cast<float>(wanted));
    }
    ASSERT_EQ(batch.targets.shape(), (Shape{2, 3}));
    EXPECT_EQ(batch.targets.data<std::int64_t>()[2], -4);
    EXPECT_EQ(batch.targets.data<std::int64_t>()[3], -9);
  }
}

/// Ten samples of two f32, or what a mistaken program stores.
class Stored : public Pairs {
 public:
  Stored(Tensor samples, Tensor targets)
      : Pairs(DType::f32), stored_{std::move(samples), std::move(targets)} {}
  std::optional<StoredSamples> stored(Split) const override { return stored_; }

 private:
  StoredSamples stored_;
};

TEST(BatchMaker, RefusesStoredTensorsOfAnotherShapeOrType) {
  const Tensor samples = Tensor::zeros({10, 2}), targets = Tensor::zeros({10, 3}, DType::i64);
  const auto make = [](Tensor stored, Tensor classes) {
    BatchMaker(std::make_shared<Stored>(std::move(stored), std::move(classes)), Split::train, {})
        .make({.samples = {9}});
  };
  EXPECT_NO_THROW(make(samples, targets));
  EXPECT_THROW(make(Tensor::zeros({9, 2}), targets), Error);
  EXPECT_THROW(make(Tensor::zeros({10, 1}), targets), Error);
  EXPECT_THROW(make(Tensor::zeros({10, 2}, DType::i64), targets), Error);
  EXPECT_THROW(make(samples, Tensor::zeros({10}, DType::i64)), Error);
  EXPECT_THROW(make(samples, Tensor::zeros({10, 3})), Error);
}

TEST(BatchMaker, NamesTheSampleThatIsNotFinite) {
  const Tensor samples = Tensor::zeros({10, 2}), targets = Tensor::zeros({10, 3}, DType::i64);
  samples.data<float>()[11] = -std::numeric_limits<float>::infinity();
  const Dataset dataset = std::make_shared<Stored>(samples, targets);
  const BatchMaker make(dataset, Split::train, {});
  EXPECT_NO_THROW(make.make({.samples = {4, 6}}));
  try {
    make.make({.samples = {4, 5}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "training sample 5 of pairs (from 0) has -inf at number 2 of 2");
  }
  testing::internal::CaptureStderr();
  const BatchMaker tests(dataset, Split::test, {});
  for (int epoch = 0; epoch < 2; ++epoch) EXPECT_NO_THROW(tests.make({.samples = {4, 5}}));
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string warning = "test sample 5 of pairs (from 0) has -inf at number 2 of 2: ";
  EXPECT_THAT(said, testing::HasSubstr(warning + "the test loss will not be finite"));
  EXPECT_EQ(said.find(warning), said.rfind(warning)) << "once";
}

TEST(BatchMaker, AugmentsImagesOnly) {
  const TransformOptions flip{.augment = {Augment::flip}};
  for (const DType dtype : {DType::f32, DType::u8})
    EXPECT_THROW(BatchMaker(std::make_shared<Pairs>(dtype), Split::train, flip), Error);
}

}  // namespace
}  // namespace troupe
