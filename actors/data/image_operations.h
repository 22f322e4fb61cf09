#pragma once
// Operations on an image, in place, with the names of torchvision.transforms.autoaugment and its
// results for tensors of uint8. Source positions are computed in f64, torchvision's in f32: a
// position halfway between two pixels may round to the other one.

#include <cstdint>

#include "actors/data/color_jitter.h"

namespace troupe {

/// What an operation's magnitude means, if it has one.
enum class ImageOperation : std::uint8_t {
  identity,
  shear_x,        ///< columns to the left for each row from the top
  shear_y,        ///< rows upwards for each column from the left
  translate_x,    ///< pixels to the right, truncated
  translate_y,    ///< pixels downwards, truncated
  rotate,         ///< degrees counter-clockwise about the centre
  brightness,     ///< the factor less 1, of adjust_brightness
  color,          ///< the factor less 1, of adjust_saturation
  contrast,       ///< the factor less 1, of adjust_contrast
  sharpness,      ///< the factor less 1: below 0 the image is smoothed, above 0 sharpened
  posterize,      ///< bits of each byte that are kept, the highest ones
  solarize,       ///< bytes of at least this value are inverted
  auto_contrast,  ///< each channel is stretched to 0 to 255
  equalize,       ///< each channel's histogram is equalised
  invert,
};

/// An image with its size. Grey (one channel) or RGB.
struct SizedImage {
  ColorPlanes planes;
  std::int64_t height = 0, width = 0;
};

/// Geometric operations take the nearest source pixel, and 0 outside of the image.
void change_image(const SizedImage& image, ImageOperation operation, double magnitude);

}  // namespace troupe
