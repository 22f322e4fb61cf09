#pragma once
// The transformations of a sample between the data set and the first layer: flip, crop, normalise.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace troupe {

/// A random change of a training sample.
enum class Augment : std::uint8_t {
  flip,  ///< mirrored left to right, every second time
  crop,  ///< padded by four zero pixels on each side, then a random window of the old size
};

struct TransformOptions {
  std::uint64_t seed = 1;
  std::vector<Augment> augment;      ///< of training images, in this order, before normalising
  std::vector<double> mean = {0.0};  ///< a value for each channel, or one for all
  std::vector<double> std = {1.0};
  DType dtype = DType::f32;  ///< of normalised samples: f32 or f64
};

/// Converts samples of u8 to network input: a pixel p of channel c becomes (p / 255 - mean[c]) /
/// std[c], computed in f64 and rounded once. Samples that are not [channels, height, width] have
/// one channel and cannot be augmented.
///
/// Augmentations act on stored pixels, as torchvision's RandomHorizontalFlip and
/// RandomCrop(size, padding=4) do before ToTensor and Normalize: padding has the value of a zero
/// pixel. Their random numbers are keyed by (seed, epoch, sample, operation), so a sample looks the
/// same in any batch, on any worker and replica. Immutable: any thread may use it.
class SampleTransform {
 public:
  /// Throws Error{bad_options} where mean, std or augment do not fit samples of this shape.
  SampleTransform(const TransformOptions& options, const Shape& sample_shape);

  /// Writes sample number `sample` to `out`, as many elements of T as it has pixels. T is the type
  /// of the options.
  template <class T>
  void apply(const std::uint8_t* pixels, std::int64_t epoch, std::uint32_t sample, T* out) const;

 private:
  struct Window;  // which source pixel each target pixel shows
  Window choose(std::int64_t epoch, std::uint32_t sample) const;
  template <class T>
  const T* table() const;

  TransformOptions options_;
  Shape shape_;                   // [channels, height, width]
  std::vector<float> table_f32_;  // 256 values for each channel
  std::vector<double> table_f64_;
};

}  // namespace troupe
