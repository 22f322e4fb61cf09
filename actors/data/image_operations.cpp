#include "actors/data/image_operations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

namespace troupe {
namespace {

using Bytes = std::span<std::uint8_t>;

template <class Change>
void for_each_plane(const SizedImage& image, const Change& change) {
  const auto size = static_cast<std::size_t>(image.height * image.width);
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(image.planes.channels);
       ++channel)
    change(image.planes.bytes.subspan(channel * size, size));
}

/// Replaces each byte by `changed(byte)`.
template <class Changed>
void map_bytes(Bytes bytes, const Changed& changed) {
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(changed(byte));
}

/// Maps a pixel's position (x, y) to that of its source, (xx x + xy y + x0, yx x + yy y + y0), both
/// from the image's centre.
struct Source {
  double xx = 1, xy = 0, x0 = 0, yx = 0, yy = 1, y0 = 0;
};

void move_pixels(const SizedImage& image, const Source& from) {
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  std::vector<std::int64_t> places;  // in a plane; -1: outside
  places.reserve(static_cast<std::size_t>(image.height * image.width));
  for (std::int64_t row = 0; row < image.height; ++row)
    for (std::int64_t column = 0; column < image.width; ++column) {
      const double x = static_cast<double>(column) + 0.5 - width / 2;
      const double y = static_cast<double>(row) + 0.5 - height / 2;
      const double u = std::nearbyint(from.xx * x + from.xy * y + from.x0 + width / 2 - 0.5);
      const double v = std::nearbyint(from.yx * x + from.yy * y + from.y0 + height / 2 - 0.5);
      const bool inside = u >= 0 && u < width && v >= 0 && v < height;
      places.push_back(inside ? static_cast<std::int64_t>(v * width + u) : -1);
    }
  std::vector<std::uint8_t> before;
  for_each_plane(image, [&](Bytes plane) {
    before.assign(plane.begin(), plane.end());
    for (std::size_t i = 0; i < plane.size(); ++i)
      plane[i] = places[i] < 0 ? std::uint8_t{0} : before[static_cast<std::size_t>(places[i])];
  });
}

void rotate(const SizedImage& image, double degrees) {
  const double angle = degrees * std::numbers::pi / 180;
  const double cosine = std::cos(angle), sine = std::sin(angle);
  move_pixels(image, {.xx = cosine, .xy = -sine, .yx = sine, .yy = cosine});
}

/// Mixes inner pixels with a weighted mean of their 3 × 3 neighbours, in which the pixel itself has
/// weight 5 of 13.
void adjust_sharpness(const SizedImage& image, double factor) {
  if (image.height <= 2 || image.width <= 2) return;
  const auto own = static_cast<float>(factor), other = static_cast<float>(1 - factor);
  std::vector<std::uint8_t> before;
  for_each_plane(image, [&](Bytes plane) {
    before.assign(plane.begin(), plane.end());
    for (std::int64_t row = 0; row < image.height; ++row)
      for (std::int64_t column = 0; column < image.width; ++column) {
        const std::int64_t at = row * image.width + column;
        const auto pixel = [&](std::int64_t place) {
          return before[static_cast<std::size_t>(place)];
        };
        float smooth = pixel(at);
        if (row > 0 && row < image.height - 1 && column > 0 && column < image.width - 1) {
          int sum = 4 * pixel(at);
          for (std::int64_t y = -1; y <= 1; ++y)
            for (std::int64_t x = -1; x <= 1; ++x) sum += pixel(at + y * image.width + x);
          smooth = std::nearbyint(static_cast<float>(sum) / 13.0f);
        }
        plane[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(
            std::clamp(own * static_cast<float>(pixel(at)) + other * smooth, 0.0f, 255.0f));
      }
  });
}

void stretch_contrast(Bytes plane) {
  const auto [least, most] = std::ranges::minmax(plane);
  if (least == most) return;
  const float scale = 1.0f / static_cast<float>(most - least) * 255.0f;  // as PyTorch divides
  map_bytes(plane, [&, low = least](std::uint8_t byte) {
    return std::clamp(static_cast<float>(byte - low) * scale, 0.0f, 255.0f);
  });
}

void equalize(Bytes plane) {
  std::array<std::int64_t, 256> counts{};
  for (const std::uint8_t byte : plane) ++counts[byte];
  const std::uint8_t most = std::ranges::max(plane);
  const std::int64_t step = (std::ssize(plane) - counts[most]) / 255;
  if (step == 0) return;
  std::array<std::uint8_t, 256> levels{};
  std::int64_t below = step / 2;
  for (std::size_t byte = 0; byte < levels.size(); ++byte) {
    // The lowest level is 0 however many pixels there are.
    levels[byte] =
        byte == 0 ? 0 : static_cast<std::uint8_t>(std::min<std::int64_t>(below / step, 255));
    below += counts[byte];
  }
  map_bytes(plane, [&](std::uint8_t byte) { return levels[byte]; });
}

}  // namespace

void change_image(const SizedImage& image, ImageOperation operation, double magnitude) {
  const Bytes all = image.planes.bytes;
  if (all.empty()) return;
  const double half_width = static_cast<double>(image.width) / 2,
               half_height = static_cast<double>(image.height) / 2;
  switch (operation) {
    case ImageOperation::identity:
      return;
    case ImageOperation::shear_x:
      return move_pixels(image, {.xy = magnitude, .x0 = magnitude * half_height});
    case ImageOperation::shear_y:
      return move_pixels(image, {.yx = magnitude, .y0 = magnitude * half_width});
    case ImageOperation::translate_x:
      return move_pixels(image, {.x0 = -std::trunc(magnitude)});
    case ImageOperation::translate_y:
      return move_pixels(image, {.y0 = -std::trunc(magnitude)});
    case ImageOperation::rotate:
      return rotate(image, magnitude);
    case ImageOperation::brightness:
      return adjust_brightness(image.planes, 1 + magnitude);
    case ImageOperation::color:
      return adjust_saturation(image.planes, 1 + magnitude);
    case ImageOperation::contrast:
      return adjust_contrast(image.planes, 1 + magnitude);
    case ImageOperation::sharpness:
      return adjust_sharpness(image, 1 + magnitude);
    case ImageOperation::posterize:
      return map_bytes(all, [&](int byte) {
        return byte & -(1 << (8 - std::clamp(static_cast<int>(magnitude), 0, 8)));
      });
    case ImageOperation::solarize:
      return map_bytes(all, [&](int byte) { return byte >= magnitude ? 255 - byte : byte; });
    case ImageOperation::auto_contrast:
      return for_each_plane(image, stretch_contrast);
    case ImageOperation::equalize:
      return for_each_plane(image, equalize);
    case ImageOperation::invert:
      return map_bytes(all, [](int byte) { return 255 - byte; });
  }
}

}  // namespace troupe
