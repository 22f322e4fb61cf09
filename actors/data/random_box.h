#pragma once
// Random rectangles of images, as torchvision draws them.

#include <optional>

#include "runtime/image/image.h"
#include "runtime/random.h"

namespace troupe {

/// The part of an image that torchvision's RandomResizedCrop takes with its defaults: 0.08 to 1 of
/// the area, an aspect ratio from 3/4 to 4/3, uniform in its logarithm. After ten rectangles that
/// do not fit, the largest central one of such a ratio. Inside of the image, not empty.
ImageBox random_resized_crop(ImageSize image, const RandomKey& key);

/// The rectangle that torchvision's RandomErasing erases with its defaults: in every second image,
/// 0.02 to 0.33 of the area, an aspect ratio from 0.3 to 3.3, smaller than the image in both axes.
/// Nothing in the other images, and after ten rectangles that do not fit.
std::optional<ImageBox> random_erasing(ImageSize image, const RandomKey& key);

}  // namespace troupe
