#include "actors/data/color_jitter.h"

#include <algorithm>
#include <array>
#include <vector>

namespace troupe {
namespace {

std::uint8_t truncated(float value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
}

/// factor × image + rest for each byte.
void mix(std::span<std::uint8_t> image, double factor, float rest) {
  std::array<std::uint8_t, 256> mixed{};
  for (int i = 0; i < 256; ++i)
    mixed[static_cast<std::size_t>(i)] =
        truncated(static_cast<float>(factor) * static_cast<float>(i) + rest);
  for (std::uint8_t& byte : image) byte = mixed[byte];
}

/// ITU-R BT.601 luma with torchvision's four digits.
std::uint8_t grey_of(std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  return static_cast<std::uint8_t>(0.2989f * red + 0.587f * green + 0.114f * blue);
}

template <class Visit>
void for_each_pixel(const ColorPlanes& image, const Visit& visit) {
  const std::size_t plane = image.bytes.size() / 3;
  std::uint8_t* red = image.bytes.data();
  for (std::size_t i = 0; i < plane; ++i) visit(red[i], red[i + plane], red[i + 2 * plane]);
}

float mean_grey(const ColorPlanes& image) {
  std::uint64_t sum = 0;
  if (image.channels == 1)
    for (const std::uint8_t byte : image.bytes) sum += byte;
  else
    for_each_pixel(image, [&](std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
      sum += grey_of(red, green, blue);
    });
  const auto pixels = image.bytes.size() / static_cast<std::size_t>(image.channels);
  return static_cast<float>(static_cast<double>(sum) / static_cast<double>(pixels));
}

}  // namespace

void adjust_brightness(const ColorPlanes& image, double factor) { mix(image.bytes, factor, 0); }

void adjust_contrast(const ColorPlanes& image, double factor) {
  mix(image.bytes, factor, static_cast<float>(1 - factor) * mean_grey(image));
}

void adjust_saturation(const ColorPlanes& image, double factor) {
  if (image.channels == 1) return;
  const auto own = static_cast<float>(factor), other = static_cast<float>(1 - factor);
  for_each_pixel(image, [&](std::uint8_t& red, std::uint8_t& green, std::uint8_t& blue) {
    const float rest = other * grey_of(red, green, blue);
    for (std::uint8_t* byte : {&red, &green, &blue}) *byte = truncated(own * *byte + rest);
  });
}

void color_jitter(const ColorPlanes& image, const ColorRanges& ranges, const RandomKey& key) {
  const auto numbers = key.block(0);
  const auto factor = [&](double range, std::size_t number) {
    const double least = std::max(0.0, 1 - range);
    return least + (1 + range - least) * double{uniform_float(numbers[number])};
  };
  std::array<int, 3> order{0, 1, 2};
  for (std::uint32_t left = numbers[3] % 6; left > 0; --left)
    std::next_permutation(order.begin(), order.end());
  for (const int property : order) {
    if (property == 0 && ranges.brightness > 0)
      adjust_brightness(image, factor(ranges.brightness, 0));
    else if (property == 1 && ranges.contrast > 0)
      adjust_contrast(image, factor(ranges.contrast, 1));
    else if (property == 2 && ranges.saturation > 0)
      adjust_saturation(image, factor(ranges.saturation, 2));
  }
}

}  // namespace troupe
