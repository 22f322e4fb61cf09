#pragma once
// The transformations of a sample between the data set and the first layer: augmentations, then
// normalising.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "actors/data/color_jitter.h"
#include "runtime/image/image.h"
#include "runtime/random.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// A random change of a training sample: torchvision's transform of that name, with its defaults.
enum class Augment : std::uint8_t {
  flip,           ///< mirrored left to right, with probability 1/2
  vertical_flip,  ///< mirrored top to bottom, with probability 1/2
  crop,           ///< padded by four zero pixels on each side, then a random window of the old size
  random_resized_crop,   ///< a random part, resized to the shape of samples; must be the first
  color_jitter,          ///< random brightness, contrast, saturation and hue
  trivial_augment,       ///< one of 14 operations, of random strength (TrivialAugmentWide)
  rand_augment,          ///< two of 14 operations (RandAugment)
  auto_augment,          ///< one of 25 pairs of operations (AutoAugment), learned on ImageNet
  auto_augment_cifar10,  ///< the same, learned on CIFAR-10
  random_erasing,  ///< with probability 1/2, a random rectangle becomes 0 after normalising; must
                   ///< be the last
};

/// A transform of a program's own: changes a training sample, a view of the sample's shape with an
/// outermost axis of 1, in place. It takes its random numbers from `key`, which names the epoch and
/// the sample (blocks 0, 1, …), so that the sample looks the same after a resumption, on any worker
/// and replica. Called from several threads at once.
using OwnTransform = std::function<void(Tensor sample, const RandomKey& key)>;

struct TransformOptions {
  std::uint64_t seed = 1;
  std::vector<Augment> augment = {};  ///< of training images, in this order
  /// Of color_jitter, and then not empty: ranges of brightness, contrast and saturation, and of
  /// hue if there is a fourth.
  std::vector<double> color_jitter = {};
  std::vector<double> mean = {0.0};  ///< a value for each channel, or one for all
  std::vector<double> std = {1.0};
  DType dtype = DType::f32;  ///< of normalised samples: f32 or f64
  /// The device of the first stage. A device other than the CPU gets images as bytes and normalises
  /// them, unless a transform acts on normalised samples (actors/data/batch_maker.h).
  Device device = {};
  OwnTransform own = {};  ///< of training samples of any type, after all others
};

/// Throws Error{bad_options} where random_resized_crop is not the first augmentation,
/// random_erasing not the last, or color_jitter has not three or four ranges of at
/// least 0, the fourth at most 0.5.
void check_augmentations(const TransformOptions& options);

/// Normalised pixels, [channels, 256] in the CPU's memory and of the options' dtype: a pixel p of
/// channel c becomes (p / 255 - mean[c]) / std[c], computed in f64 and rounded once. Throws
/// Error{bad_options} where mean or std do not fit samples of this number of channels.
Tensor normalised_pixels(const TransformOptions& options, std::int64_t channels);

/// Whether an augmentation of stored images only chooses which pixel of the image each pixel shows.
constexpr bool only_moves_pixels(Augment augment) {
  return augment == Augment::flip || augment == Augment::vertical_flip || augment == Augment::crop;
}

/// Where the pixels of a sample are in its stored image: pixel (h, w) is that of line
/// top + down * h and column left + right * w, or a zero pixel where the image has none.
struct PixelWindow {
  std::int64_t top, down, left, right;
};

/// Converts samples of u8 to network input (normalised_pixels). Samples that are not [channels,
/// height, width] have one channel and cannot be augmented.
///
/// Augmentations act on stored pixels, as torchvision's transforms do before ToTensor and
/// Normalize (random_erasing: after them): padding has the value of a zero pixel. Their random
/// numbers are keyed by (seed, epoch, sample, operation), so a sample looks the same in any batch,
/// on any worker and replica. Immutable: any thread may use it.
class SampleTransform {
 public:
  /// Throws Error{bad_options} where mean, std or augment do not fit samples of this shape.
  SampleTransform(const TransformOptions& options, const Shape& sample_shape);

  /// Whether samples are parts of the data set's images: Dataset::read_part reads them.
  bool takes_part() const;
  /// The part of an image of that size that sample number `sample` shows.
  ImageBox part(ImageSize image, std::int64_t epoch, std::uint32_t sample) const;

  /// Writes sample number `sample` to `out`, as many elements of T as it has pixels. T is the type
  /// of the options, or std::uint8_t for pixels that are not normalised; random_erasing has no
  /// meaning for those. `pixels` are the sample's, or those of its part.
  template <class T>
  void apply(const std::uint8_t* pixels, std::int64_t epoch, std::uint32_t sample, T* out) const;

  /// The bytes that `apply` writes of sample number `sample`, as places of its pixels, if all
  /// augmentations only move pixels.
  PixelWindow window(std::int64_t epoch, std::uint32_t sample) const;

 private:
  void change(Augment augment, std::span<std::uint8_t> pixels, std::int64_t epoch,
              std::uint32_t sample) const;
  struct Window;  // which source pixel each target pixel shows
  struct Axis;    // the same of one axis
  RandomKey key(std::string_view operation, std::int64_t epoch, std::uint32_t sample) const;
  Window choose(std::span<const Augment> augment, std::int64_t epoch, std::uint32_t sample) const;
  template <class T, class LineOf>
  void gather(const std::uint8_t* pixels, const Window& window, LineOf line_of, T* out) const;
  template <class T>
  void erase(const ImageBox& box, T* out) const;

  TransformOptions options_;
  Shape shape_;     // [channels, height, width]
  Tensor numbers_;  // normalised_pixels
};

}  // namespace troupe
