#include "actors/data/color_jitter.h"

#include <algorithm>
#include <array>
#include <cmath>
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

namespace {

/// The hue as a part of the circle; 0 for grey.
float hue_of(float red, float green, float blue, float most, float range) {
  if (range == 0) return 0;
  const float to_red = (most - red) / range, to_green = (most - green) / range,
              to_blue = (most - blue) / range;
  const float sixths = most == red     ? to_blue - to_green
                       : most == green ? 2.0f + to_red - to_blue
                                       : 4.0f + to_green - to_red;
  return std::fmod(sixths / 6.0f + 1.0f, 1.0f);
}

/// Red, green and blue of HSV.
std::array<float, 3> rgb_of(float hue, float saturation, float value) {
  const float sixth = std::floor(hue * 6.0f), rest = hue * 6.0f - sixth;
  const auto clamped = [](float colour) { return std::clamp(colour, 0.0f, 1.0f); };
  const float low = clamped(value * (1.0f - saturation)),
              falling = clamped(value * (1.0f - saturation * rest)),
              rising = clamped(value * (1.0f - saturation * (1.0f - rest)));
  switch (static_cast<int>(sixth) % 6) {
    case 0:
      return {value, rising, low};
    case 1:
      return {falling, value, low};
    case 2:
      return {low, value, rising};
    case 3:
      return {low, falling, value};
    case 4:
      return {rising, low, value};
    default:
      return {value, low, falling};
  }
}

}  // namespace

void adjust_hue(const ColorPlanes& image, double turn) {
  if (image.channels == 1) return;
  for_each_pixel(image, [&](std::uint8_t& red, std::uint8_t& green, std::uint8_t& blue) {
    const float r = static_cast<float>(red) / 255.0f, g = static_cast<float>(green) / 255.0f,
                b = static_cast<float>(blue) / 255.0f;
    const float most = std::max({r, g, b}), range = most - std::min({r, g, b});
    const float saturation = range == 0 ? 0.0f : range / most;
    float hue = std::fmod(hue_of(r, g, b, most, range) + static_cast<float>(turn), 1.0f);
    if (hue < 0) hue += 1.0f;
    const std::array<float, 3> turned = rgb_of(hue, saturation, most);
    constexpr float to_byte = 255.999f;  // as torchvision rounds
    red = static_cast<std::uint8_t>(turned[0] * to_byte);
    green = static_cast<std::uint8_t>(turned[1] * to_byte);
    blue = static_cast<std::uint8_t>(turned[2] * to_byte);
  });
}

void color_jitter(const ColorPlanes& image, const ColorRanges& ranges, const RandomKey& key) {
  const auto numbers = key.block(0);
  const auto factor = [&](double range, std::size_t number) {
    const double least = std::max(0.0, 1 - range);
    return least + (1 + range - least) * double{uniform_float(numbers[number])};
  };
  // Without hue there are three properties, so that such runs keep their bits.
  std::array<int, 4> order{0, 1, 2, 3};
  const int properties = ranges.hue > 0 ? 4 : 3;
  for (std::uint32_t left = numbers[3] % (properties == 4 ? 24 : 6); left > 0; --left)
    std::next_permutation(order.begin(), order.begin() + properties);
  for (const int property : std::span(order).first(static_cast<std::size_t>(properties))) {
    if (property == 0 && ranges.brightness > 0)
      adjust_brightness(image, factor(ranges.brightness, 0));
    else if (property == 1 && ranges.contrast > 0)
      adjust_contrast(image, factor(ranges.contrast, 1));
    else if (property == 2 && ranges.saturation > 0)
      adjust_saturation(image, factor(ranges.saturation, 2));
    else if (property == 3)
      adjust_hue(image, ranges.hue * (2 * double{uniform_float(key.block(1)[0])} - 1));
  }
}

}  // namespace troupe
