#include "actors/data/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "runtime/error.h"

namespace troupe {
namespace {

// Every pixel has a value of its own, none of them 0, so that a result tells where it came from.
std::vector<std::uint8_t> numbered(std::int64_t count) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(count));
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{1});
  return pixels;
}

// The transform without normalising: the result is p / 255.
std::vector<int> moved(const std::vector<Augment>& augment, const Shape& shape, std::int64_t epoch,
                       std::uint32_t sample) {
  const SampleTransform transform({.augment = augment}, shape);
  const auto pixels = numbered(shape.element_count());
  std::vector<float> out(pixels.size());
  transform.apply(pixels.data(), epoch, sample, out.data());
  std::vector<int> result;
  for (float value : out) result.push_back(static_cast<int>(std::lround(value * 255)));
  return result;
}

// The definition, pixel by pixel: pad by four zeros, cut at (4 + down, 4 + right).
std::vector<int> cropped(const std::vector<int>& image, std::int64_t size, int down, int right) {
  std::vector<int> result;
  for (std::int64_t y = down; y < size + down; ++y)
    for (std::int64_t x = right; x < size + right; ++x)
      result.push_back(y < 0 || y >= size || x < 0 || x >= size
                           ? 0
                           : image[static_cast<std::size_t>(y * size + x)]);
  return result;
}

std::vector<int> flipped(std::vector<int> image, int size) {
  for (auto row = image.begin(); row != image.end(); row += size) std::reverse(row, row + size);
  return image;
}

std::vector<int> stored(std::int64_t size) {
  const auto pixels = numbered(size * size);
  return {pixels.begin(), pixels.end()};
}

TEST(SampleTransform, NormalisesEachChannel) {
  const SampleTransform transform({.mean = {0.5, 0.25}, .std = {0.5, 2.0}}, Shape{2, 1, 2});
  const std::vector<std::uint8_t> pixels{0, 255, 0, 51};
  std::vector<float> out(4);
  transform.apply(pixels.data(), 0, 0, out.data());
  EXPECT_EQ(out, (std::vector<float>{-1.0f, 1.0f, -0.125f, static_cast<float>(-0.05 / 2)}));
}

TEST(SampleTransform, CalculatesInDoublePrecision) {
  const SampleTransform transform({.mean = {0.286}, .std = {0.353}, .dtype = DType::f64},
                                  Shape{1, 1, 256});
  std::vector<std::uint8_t> pixels(256);
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{0});
  std::vector<double> out(256);
  transform.apply(pixels.data(), 0, 0, out.data());
  for (int p = 0; p < 256; ++p)
    EXPECT_DOUBLE_EQ(out[static_cast<std::size_t>(p)], (p / 255.0 - 0.286) / 0.353);
}

TEST(SampleTransform, LeavesPixelsWhereTheyAreWithoutAugmentations) {
  for (std::uint32_t sample = 0; sample < 20; ++sample)
    EXPECT_EQ(moved({}, Shape{1, 6, 6}, sample, sample), stored(6));
}

TEST(SampleTransform, FlipsEverySecondSampleOnAverage) {
  int mirrored = 0;
  for (std::uint32_t sample = 0; sample < 2000; ++sample) {
    const auto result = moved({Augment::flip}, Shape{1, 5, 5}, 0, sample);
    if (result == flipped(stored(5), 5))
      ++mirrored;
    else
      ASSERT_EQ(result, stored(5));
  }
  EXPECT_NEAR(mirrored, 1000, 5 * 22);  // a standard deviation of 22
}

// Which of the 81 windows (and, where asked, mirror images) were seen; each must be one of them.
std::set<std::pair<int, int>> windows_seen(const std::vector<Augment>& augment, int size) {
  std::set<std::pair<int, int>> seen;
  const bool flip = augment.size() == 2, flip_first = flip && augment[0] == Augment::flip;
  for (std::uint32_t sample = 0; sample < 1500; ++sample) {
    const auto result = moved(augment, Shape{1, size, size}, 3, sample);
    bool found = false;
    for (int down = -4; down <= 4 && !found; ++down)
      for (int right = -4; right <= 4 && !found; ++right) {
        const auto plain = cropped(stored(size), size, down, right);
        const auto mirror = flip_first ? cropped(flipped(stored(size), size), size, down, right)
                                       : flipped(plain, size);
        found = result == plain || (flip && result == mirror);
        if (found) seen.emplace(down, right);
      }
    EXPECT_TRUE(found) << "sample " << sample << " is no window of the padded image";
  }
  return seen;
}

TEST(SampleTransform, CropsEveryWindowOfThePaddedImage) {
  EXPECT_EQ(windows_seen({Augment::crop}, 9).size(), 81u);
}

TEST(SampleTransform, CropsImagesSmallerThanThePadding) {
  EXPECT_GT(windows_seen({Augment::crop}, 2).size(), 9u);
  EXPECT_GT(windows_seen({Augment::flip, Augment::crop}, 3).size(), 9u);
}

TEST(SampleTransform, FlipsAndCropsInTheOrderAskedFor) {
  EXPECT_EQ(windows_seen({Augment::flip, Augment::crop}, 9).size(), 81u);
  EXPECT_EQ(windows_seen({Augment::crop, Augment::flip}, 9).size(), 81u);
  int different = 0;  // the same random numbers, another order: other pixels where mirrored
  for (std::uint32_t sample = 0; sample < 50; ++sample)
    different += moved({Augment::flip, Augment::crop}, Shape{1, 9, 9}, 0, sample) !=
                 moved({Augment::crop, Augment::flip}, Shape{1, 9, 9}, 0, sample);
  EXPECT_GT(different, 5);
}

TEST(SampleTransform, MovesAllChannelsAlike) {
  for (std::uint32_t sample = 0; sample < 20; ++sample) {
    const auto three = moved({Augment::flip, Augment::crop}, Shape{3, 7, 7}, 1, sample);
    const auto one = moved({Augment::flip, Augment::crop}, Shape{1, 7, 7}, 1, sample);
    for (std::size_t i = 0; i < one.size(); ++i) {
      ASSERT_EQ(three[i], one[i]);
      ASSERT_EQ(three[i + 49], one[i] == 0 ? 0 : one[i] + 49);
    }
  }
}

TEST(SampleTransform, PadsWithTheValueOfAZeroPixel) {
  const SampleTransform transform({.augment = {Augment::crop}, .mean = {0.5}, .std = {0.25}},
                                  Shape{1, 2, 2});
  const std::vector<std::uint8_t> white(4, 255);
  int padded = 0;
  for (std::uint32_t sample = 0; sample < 50; ++sample) {
    std::vector<float> out(4);
    transform.apply(white.data(), 0, sample, out.data());
    for (float value : out) {
      EXPECT_TRUE(value == 2.0f || value == -2.0f) << value;
      padded += value == -2.0f;
    }
  }
  EXPECT_GT(padded, 50);
}

TEST(SampleTransform, DrawsAnewForEachEpochSampleAndSeed) {
  const Shape shape{1, 12, 12};
  const std::vector<Augment> both{Augment::flip, Augment::crop};
  EXPECT_EQ(moved(both, shape, 4, 9), moved(both, shape, 4, 9));
  std::set<std::vector<int>> epochs, samples;
  std::set<std::vector<float>> seeds;
  const auto pixels = numbered(144);
  for (std::uint32_t i = 0; i < 20; ++i) {
    epochs.insert(moved(both, shape, i, 0));
    samples.insert(moved(both, shape, 0, i));
    std::vector<float> out(144);
    SampleTransform({.seed = i, .augment = both}, shape).apply(pixels.data(), 0, 0, out.data());
    seeds.insert(out);
  }
  EXPECT_GT(epochs.size(), 10u);
  EXPECT_GT(samples.size(), 10u);
  EXPECT_GT(seeds.size(), 5u);
}

TEST(SampleTransform, FlipsTopToBottomEverySecondSampleOnAverage) {
  const std::vector<int> rows{1, 2, 3, 4}, turned{3, 4, 1, 2};
  int mirrored = 0;
  for (std::uint32_t sample = 0; sample < 2000; ++sample) {
    const auto result = moved({Augment::vertical_flip}, Shape{1, 2, 2}, 0, sample);
    EXPECT_TRUE(result == rows || result == turned);
    mirrored += result == turned;
  }
  EXPECT_NEAR(mirrored, 1000, 5 * 22);  // a standard deviation of 22
}

TEST(SampleTransform, ErasesRectanglesOfNormalisedSamples) {
  const Shape shape{2, 20, 20};
  const SampleTransform transform({.augment = {Augment::random_erasing}, .mean = {0.5}}, shape);
  const std::vector<std::uint8_t> white(800, 255);
  int erased = 0;
  for (std::uint32_t sample = 0; sample < 100; ++sample) {
    std::vector<float> out(800);
    transform.apply(white.data(), 0, sample, out.data());
    const auto zeros = std::count(out.begin(), out.begin() + 400, 0.0f);
    EXPECT_EQ(zeros + std::count(out.begin(), out.begin() + 400, 0.5f), 400);
    EXPECT_TRUE(std::equal(out.begin(), out.begin() + 400, out.begin() + 400));
    erased += zeros > 0;
  }
  EXPECT_NEAR(erased, 50, 25);
}

// Contrast depends on all pixels, so padding before it changes the others, and after it does not.
TEST(SampleTransform, ChangesColoursWhereTheOrderSays) {
  const Shape shape{3, 8, 8};
  const std::vector<double> ranges{0, 0.9, 0};
  const auto apply = [&](std::vector<Augment> augment, std::uint32_t sample) {
    const SampleTransform transform({.augment = std::move(augment), .color_jitter = ranges}, shape);
    const auto pixels = numbered(192);
    std::vector<float> out(192);
    transform.apply(pixels.data(), 0, sample, out.data());
    return out;
  };
  int different = 0;
  for (std::uint32_t sample = 0; sample < 20; ++sample) {
    const auto before = apply({Augment::crop, Augment::color_jitter}, sample);
    const auto after = apply({Augment::color_jitter, Augment::crop}, sample);
    different += before != after;
    auto jittered = apply({Augment::color_jitter}, sample);
    const auto flipped = apply({Augment::color_jitter, Augment::flip}, sample);
    if (flipped != jittered)
      for (auto row = jittered.begin(); row != jittered.end(); row += 8) std::reverse(row, row + 8);
    EXPECT_EQ(flipped, jittered);
  }
  EXPECT_GT(different, 10);
}

TEST(SampleTransform, WritesTheBytesThatItWouldNormalise) {
  const std::vector<std::vector<Augment>> all{
      {},
      {Augment::flip},
      {Augment::vertical_flip, Augment::crop, Augment::flip},
      {Augment::crop, Augment::color_jitter, Augment::flip},
      {Augment::trivial_augment, Augment::crop, Augment::rand_augment, Augment::color_jitter,
       Augment::auto_augment, Augment::auto_augment_cifar10}};
  for (const Shape& shape : {Shape{3, 5, 7}, Shape{1, 28, 28}, Shape{3, 33, 19}, Shape{3, 3, 1}})
    for (const auto& augment : all)
      for (const DType dtype : {DType::f32, DType::f64}) {
        const TransformOptions options{.augment = augment,
                                       .color_jitter = {0.4, 0.4, 0.4, 0.1},
                                       .mean = {0.286},
                                       .std = {0.353},
                                       .dtype = dtype};
        const SampleTransform transform(options, shape);
        const auto pixels = numbered(shape.element_count());
        const Tensor numbers = normalised_pixels(options, shape[0]);
        const auto check = [&]<class T>(T) {
          std::vector<std::uint8_t> bytes(pixels.size());
          std::vector<T> normalised(pixels.size());
          for (std::uint32_t sample = 0; sample < 12; ++sample) {
            transform.apply(pixels.data(), 1, sample, bytes.data());
            transform.apply(pixels.data(), 1, sample, normalised.data());
            for (std::size_t i = 0; i < bytes.size(); ++i) {
              const std::size_t channel = i / static_cast<std::size_t>(shape[1] * shape[2]);
              ASSERT_EQ(normalised[i], numbers.data<T>()[channel * 256 + bytes[i]]) << i;
            }
          }
        };
        dtype == DType::f64 ? check(double()) : check(float());
      }
}

TEST(SampleTransform, RefusesAugmentationsInAnOrderWithoutMeaning) {
  const Shape shape{3, 8, 8};
  const auto refuse = [&](const TransformOptions& options) {
    EXPECT_THROW(SampleTransform(options, shape), Error);
  };
  refuse({.augment = {Augment::flip, Augment::random_resized_crop}});
  refuse({.augment = {Augment::random_erasing, Augment::flip}});
  refuse({.augment = {Augment::color_jitter}});
  refuse({.augment = {Augment::color_jitter}, .color_jitter = {0.4, 0.4}});
  refuse({.augment = {Augment::color_jitter}, .color_jitter = {0.4, -0.4, 0}});
  refuse({.augment = {Augment::color_jitter}, .color_jitter = {0.4, 0.4, 0, 0.6}});
  refuse({.augment = {Augment::color_jitter}, .color_jitter = {0.4, 0.4, 0, 0.1, 0}});
  EXPECT_THROW(SampleTransform({.augment = {Augment::color_jitter}, .color_jitter = {1, 1, 1}},
                               Shape{2, 8, 8}),
               Error);
  EXPECT_NO_THROW(SampleTransform(
      {.augment = {Augment::random_resized_crop, Augment::color_jitter, Augment::random_erasing},
       .color_jitter = {0, 0.5, 1}},
      shape));
  EXPECT_NO_THROW(SampleTransform(
      {.augment = {Augment::color_jitter}, .color_jitter = {0, 0.5, 1, 0.5}}, shape));
}

TEST(SampleTransform, RefusesMeanAndStdThatDoNotFit) {
  const Shape shape{3, 4, 4};
  EXPECT_NO_THROW(SampleTransform({.mean = {0.5}, .std = {1, 2, 3}}, shape));
  EXPECT_THROW(SampleTransform({.mean = {0.5, 0.5}}, shape), Error);
  EXPECT_THROW(SampleTransform({.mean = {}}, shape), Error);
  EXPECT_THROW(SampleTransform({.std = {0.0}}, shape), Error);
  EXPECT_THROW(SampleTransform({.std = {-1.0}}, shape), Error);
  EXPECT_THROW(SampleTransform({.mean = {std::numeric_limits<double>::quiet_NaN()}}, shape), Error);
  EXPECT_THROW(SampleTransform({.dtype = DType::f16}, shape), Error);
  EXPECT_NO_THROW(SampleTransform({}, Shape{4, 4}));
  EXPECT_THROW(SampleTransform({.augment = {Augment::flip}}, Shape{4, 4}), Error);
}

}  // namespace
}  // namespace troupe
