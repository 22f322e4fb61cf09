#include "actors/data/random_box.h"

#include <cmath>

namespace troupe {
namespace {

constexpr std::uint32_t most_tries = 10;

/// What torchvision draws a rectangle from.
struct Ranges {
  double least_area, most_area;    // shares of the image's
  double least_ratio, most_ratio;  // of the first side to the second
};

struct Sides {
  std::int64_t first, second;
};

/// Two sides, their ratio uniform in its logarithm. `numbers`: two random numbers.
Sides random_sides(ImageSize image, const Ranges& ranges, const std::uint32_t* numbers) {
  const auto between = [](double from, double to, std::uint32_t bits) {
    return from + (to - from) * double{uniform_float(bits)};
  };
  const double area = static_cast<double>(image.width * image.height) *
                      between(ranges.least_area, ranges.most_area, numbers[0]);
  const double ratio =
      std::exp(between(std::log(ranges.least_ratio), std::log(ranges.most_ratio), numbers[1]));
  return {std::llrint(std::sqrt(area * ratio)), std::llrint(std::sqrt(area / ratio))};
}

/// Uniform in [0, count).
std::int64_t below(std::int64_t count, std::uint32_t bits) {
  return static_cast<std::int64_t>((std::uint64_t{bits} * static_cast<std::uint64_t>(count)) >> 32);
}

ImageBox at_random_place(ImageSize image, ImageSize box, const std::uint32_t* numbers) {
  return {.left = below(image.width - box.width + 1, numbers[1]),
          .top = below(image.height - box.height + 1, numbers[0]),
          .width = box.width,
          .height = box.height};
}

}  // namespace

ImageBox random_resized_crop(ImageSize image, const RandomKey& key) {
  constexpr Ranges ranges{0.08, 1, 3.0 / 4, 4.0 / 3};
  for (std::uint32_t attempt = 0; attempt < most_tries; ++attempt) {
    const auto numbers = key.block(attempt);
    const auto [width, height] = random_sides(image, ranges, numbers.data());
    if (width > 0 && width <= image.width && height > 0 && height <= image.height)
      return at_random_place(image, {width, height}, numbers.data() + 2);
  }
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  ImageSize size = image;
  if (width / height < ranges.least_ratio) size.height = std::llrint(width / ranges.least_ratio);
  if (width / height > ranges.most_ratio) size.width = std::llrint(height * ranges.most_ratio);
  return {(image.width - size.width) / 2, (image.height - size.height) / 2, size.width,
          size.height};
}

std::optional<ImageBox> random_erasing(ImageSize image, const RandomKey& key) {
  constexpr Ranges ranges{0.02, 0.33, 0.3, 3.3};
  if (uniform_float(key.block(most_tries)[0]) >= 0.5f) return std::nullopt;
  for (std::uint32_t attempt = 0; attempt < most_tries; ++attempt) {
    const auto numbers = key.block(attempt);
    const auto [height, width] = random_sides(image, ranges, numbers.data());
    if (width > 0 && width < image.width && height > 0 && height < image.height)
      return at_random_place(image, {width, height}, numbers.data() + 2);
  }
  return std::nullopt;
}

}  // namespace troupe
