#include "actors/data/random_box.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace troupe {
namespace {

RandomKey key(std::uint32_t sample) { return {.seed = 3, .step = 1, .micro_batch = sample}; }

void expect_inside(const ImageBox& box, ImageSize image) {
  EXPECT_GE(box.left, 0);
  EXPECT_GE(box.top, 0);
  EXPECT_GT(box.width, 0);
  EXPECT_GT(box.height, 0);
  EXPECT_LE(box.left + box.width, image.width);
  EXPECT_LE(box.top + box.height, image.height);
}

TEST(RandomResizedCrop, TakesPartsOfTheAreasAndRatiosOfTorchvision) {
  const ImageSize image{500, 375};
  double area = 0, log_ratio = 0, center = 0, smallest = 1;
  constexpr int samples = 4000;
  for (std::uint32_t sample = 0; sample < samples; ++sample) {
    const ImageBox box = random_resized_crop(image, key(sample));
    expect_inside(box, image);
    const double share = static_cast<double>(box.width * box.height) / (500 * 375);
    const double ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    EXPECT_GT(share, 0.079);
    smallest = std::min(smallest, share);
    EXPECT_GT(ratio, 0.74);
    EXPECT_LT(ratio, 1.35);
    area += share / samples;
    log_ratio += std::log(ratio) / samples;
    center += (static_cast<double>(box.left) + static_cast<double>(box.width) / 2) / 500 / samples;
  }
  EXPECT_LT(smallest, 0.083);
  // Means of 100,000 of torchvision's RandomResizedCrop.get_params for this size.
  EXPECT_NEAR(area, 0.4338, 0.015);
  EXPECT_NEAR(log_ratio, 0.0310, 0.01);
  EXPECT_NEAR(center, 0.5, 0.01);
}

/// A box's area, ratio, and place among those that it could have in the image.
struct Drawn {
  double area, ratio, left, top;
};
Drawn drawn(const ImageBox& box, ImageSize image) {
  const auto share = [](std::int64_t first, std::int64_t rest) {
    return (static_cast<double>(first) + 0.5) / static_cast<double>(rest + 1);
  };
  return {static_cast<double>(box.width * box.height),
          std::log(static_cast<double>(box.width) / static_cast<double>(box.height)),
          share(box.left, image.width - box.width), share(box.top, image.height - box.height)};
}

double correlation(const std::vector<Drawn>& all, double Drawn::*x, double Drawn::*y) {
  const auto count = static_cast<double>(all.size());
  double x_sum = 0, y_sum = 0, xx = 0, yy = 0, xy = 0;
  for (const Drawn& one : all) {
    x_sum += one.*x;
    y_sum += one.*y;
    xx += one.*x * one.*x;
    yy += one.*y * one.*y;
    xy += one.*x * one.*y;
  }
  return (xy - x_sum * y_sum / count) /
         std::sqrt((xx - x_sum * x_sum / count) * (yy - y_sum * y_sum / count));
}

/// Each place of a box must be drawn by a number of its own, and be found in the whole image.
void expect_independent_places(const std::vector<Drawn>& all) {
  const double bound = 5 / std::sqrt(static_cast<double>(all.size()));  // standard deviations
  EXPECT_LT(std::abs(correlation(all, &Drawn::left, &Drawn::top)), bound);
  for (double Drawn::*place : {&Drawn::left, &Drawn::top}) {
    for (double Drawn::*size : {&Drawn::area, &Drawn::ratio})
      EXPECT_LT(std::abs(correlation(all, place, size)), bound);
    const auto [least, most] = std::ranges::minmax(all, {}, place);
    EXPECT_LT(least.*place, 0.02);
    EXPECT_GT(most.*place, 0.98);
  }
}

TEST(RandomResizedCrop, DrawsBothPlacesIndependentlyOfEachOtherAndOfTheSize) {
  constexpr ImageSize image{500, 375};
  std::vector<Drawn> all;
  for (std::uint32_t sample = 0; sample < 4000; ++sample)
    all.push_back(drawn(random_resized_crop(image, key(sample)), image));
  expect_independent_places(all);
}

TEST(RandomErasing, DrawsBothPlacesIndependentlyOfEachOtherAndOfTheSize) {
  constexpr ImageSize image{500, 375};
  std::vector<Drawn> all;
  for (std::uint32_t sample = 0; sample < 8000; ++sample)
    if (const auto box = random_erasing(image, key(sample))) all.push_back(drawn(*box, image));
  expect_independent_places(all);
}

TEST(RandomResizedCrop, TakesTheCentreOfImagesThatAreTooNarrow) {
  for (const ImageSize image : {ImageSize{1000, 10}, ImageSize{10, 1000}}) {
    int central = 0;
    for (std::uint32_t sample = 0; sample < 50; ++sample) {
      const ImageBox box = random_resized_crop(image, key(sample));
      expect_inside(box, image);
      central +=
          box == (image.width > image.height ? ImageBox{493, 0, 13, 10} : ImageBox{0, 493, 10, 13});
    }
    EXPECT_GT(central, 10);
  }
  EXPECT_EQ(random_resized_crop({1, 1}, key(0)), (ImageBox{0, 0, 1, 1}));
}

TEST(RandomErasing, ErasesEverySecondImageAsTorchvisionDoes) {
  const ImageSize image{32, 32};
  int erased = 0;
  double area = 0;
  constexpr int samples = 4000;
  for (std::uint32_t sample = 0; sample < samples; ++sample) {
    const auto box = random_erasing(image, key(sample));
    if (!box) continue;
    expect_inside(*box, image);
    EXPECT_LT(box->width, 32);
    EXPECT_LT(box->height, 32);
    area += static_cast<double>(box->width * box->height) / 1024;
    ++erased;
  }
  EXPECT_NEAR(erased, samples / 2, 5 * 32);  // a standard deviation of 32
  EXPECT_NEAR(area / erased, 0.1737, 0.01);  // of 100,000 of torchvision's
}

TEST(RandomErasing, LeavesImagesOfOnePixel) {
  for (std::uint32_t sample = 0; sample < 20; ++sample)
    EXPECT_EQ(random_erasing({1, 1}, key(sample)), std::nullopt);
}

}  // namespace
}  // namespace troupe
