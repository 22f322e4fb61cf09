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

// In place, by factors of at least 0; with 1 nothing changes. Each is a mixture of the image with
// another one, computed in f32 and truncated: factor × image + (1 - factor) × other.

void adjust_brightness(const ColorPlanes& image, double factor);  ///< the other is black
void adjust_contrast(const ColorPlanes& image, double factor);    ///< the mean grey everywhere
void adjust_saturation(const ColorPlanes& image, double factor);  ///< the image in grey

/// How far the factors of brightness, contrast and saturation may be from 1.
struct ColorRanges {
  double brightness = 0, contrast = 0, saturation = 0;
};

/// torchvision's ColorJitter without hue: each factor is uniform in [max(0, 1 - range), 1 + range],
/// and the order is random. A range of 0 leaves its property alone.
void color_jitter(const ColorPlanes& image, const ColorRanges& ranges, const RandomKey& key);

}  // namespace troupe
