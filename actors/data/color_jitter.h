#pragma once
// Random changes of an image's colours, with torchvision's formulas for tensors of uint8.

#include <cstdint>
#include <span>

#include "runtime/random.h"

namespace troupe {

/// An image of one channel (grey) or three (RGB): one plane of bytes after the other.
struct ColorPlanes {
  std::span<std::uint8_t> bytes;
  std::int64_t channels = 3;
};

// In place, by factors of at least 0; with 1 nothing changes. The first three are a mixture of the
// image with another one, computed in f32 and truncated: factor × image + (1 - factor) × other.

void adjust_brightness(const ColorPlanes& image, double factor);  ///< the other is black
void adjust_contrast(const ColorPlanes& image, double factor);    ///< the mean grey everywhere
void adjust_saturation(const ColorPlanes& image, double factor);  ///< the image in grey

/// Turns the hue by a part of the circle of colours, from -0.5 to 0.5, in place: RGB to HSV and
/// back (A. R. Smith, "Color Gamut Transform Pairs", SIGGRAPH 1978), in f32 as torchvision does.
/// Grey images have no hue.
void adjust_hue(const ColorPlanes& image, double turn);

/// How far the factors of brightness, contrast and saturation may be from 1, and the turn of the
/// hue, at most 0.5, from 0.
struct ColorRanges {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};

/// torchvision's ColorJitter: each factor is uniform in [max(0, 1 - range), 1 + range], the turn
/// of the hue in [-range, range], and the order is random. A range of 0 leaves its property alone.
void color_jitter(const ColorPlanes& image, const ColorRanges& ranges, const RandomKey& key);

}  // namespace troupe
