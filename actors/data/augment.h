#pragma once
// What happens to a sample between the data set and the first layer: flip, crop, normalise.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace troupe {

/// A random change of a training sample.
enum class Augment : std::uint8_t {
  flip,  ///< mirrored left to right, every second time
  crop,  ///< padded by four zero pixels on each side, then a random window of the old size
};

/// From the names of data.augment. Throws Error (bad_options) for an unknown or repeated name.
std::vector<Augment> parse_augment(std::span<const std::string> names);

struct TransformOptions {
  std::uint64_t seed = 1;
  std::vector<Augment> augment;      ///< applied in this order, before normalising
  std::vector<double> mean = {0.0};  ///< a value a channel, or one for all
  std::vector<double> std = {1.0};
  DType dtype = DType::f32;  ///< of the result: f32 or f64
};

/// Makes network input from stored pixels: a pixel p of channel c becomes
/// (p / 255 - mean[c]) / std[c], calculated in f64 and rounded once.
///
/// Augmentations act on stored pixels, as torchvision's RandomHorizontalFlip and
/// RandomCrop(size, padding=4) do before ToTensor and Normalize: padding has the value of a zero
/// pixel. Their random numbers are keyed by (seed, epoch, sample, operation), so a sample looks
/// the same whatever batch, worker or replica prepares it. Immutable: shared by threads freely.
class SampleTransform {
 public:
  /// `sample_shape` is [C, H, W]. Throws Error (bad_options) where mean or std do not fit.
  SampleTransform(const TransformOptions& options, const Shape& sample_shape);

  const Shape& sample_shape() const { return shape_; }
  DType dtype() const { return options_.dtype; }

  /// Writes sample number `sample`, C*H*W pixels, to `out`: C*H*W elements of T, which is dtype().
  template <class T>
  void apply(const std::uint8_t* pixels, std::int64_t epoch, std::uint32_t sample, T* out) const;

 private:
  struct Window;  // which source pixel each target pixel shows
  Window choose(std::int64_t epoch, std::uint32_t sample) const;
  template <class T>
  const T* table() const;

  TransformOptions options_;
  Shape shape_;
  std::vector<float> table_f32_;  // 256 values a channel
  std::vector<double> table_f64_;
};

}  // namespace troupe
