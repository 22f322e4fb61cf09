#pragma once
// Creates tensors from sample indices.

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "actors/data/augment.h"
#include "actors/data/dataset.h"
#include "actors/data/mix.h"
#include "actors/data/sampler.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// A micro-batch ready for the first stage and the loss.
struct Batch {
  /// [n, …], row-major, of batch_type or bytes for pixels_for. With `windows`: all images of the
  /// split, of which KernelTable::take_images makes those of the batch.
  Tensor samples;
  Tensor targets;  ///< [n, …]
  /// Of mixed samples: the targets of the partners, of which each sample shows 1 - share.
  Tensor partners = {};
  double share = 1;
  Tensor windows = {};  ///< of make_windows only
};

/// `sample` with an outermost axis of `count`.
Shape batch_shape(std::int64_t count, const Shape& sample);

/// Throws Error{bad_options} where augmentations or mix do not fit the samples of a data set.
void check_fits(const std::vector<Augment>& augment, const MixOptions& mix,
                const SampleSpec& samples, std::string_view dataset);

/// What a device makes of the bytes of images [channels, height, width] (Network::take_pixels). It
/// gets bytes if TransformOptions::device is not the CPU, of all test samples, and of training
/// samples unless random_erasing, mix or a transform of one's own changes their normalised numbers.
/// Undefined on the CPU and for other samples: those come as numbers.
Tensor pixels_for(const TransformOptions& transform, const SampleSpec& samples);

/// The type of a batch of training samples: u8 for bytes, else batch_type.
DType training_type(const SampleSpec& samples, const TransformOptions& transform,
                    const MixOptions& mix);

/// Gathers samples and transforms those of u8. Test samples are not augmented. Batches lie where
/// TransformOptions::device copies them from best. Immutable: any number of threads may call
/// `make`.
class BatchMaker {
 public:
  /// Mixes training samples by `mix`. Throws Error{bad_options} where transform or mix do not fit
  /// the samples.
  BatchMaker(Dataset dataset, Split split, TransformOptions transform, MixOptions mix = {});

  /// A pure function of `wanted`. Throws Error for damaged files, for samples out of range, and for
  /// training samples with numbers that are not finite in the type of the batch. A warning names
  /// the first such test sample.
  Batch make(const MicroBatchSamples& wanted) const;
  /// The same samples as windows of the stored images, which are not copied: for images that lie on
  /// a device. Needs what check_resident (actors/data/resident_images.h) demands.
  Batch make_windows(const MicroBatchSamples& wanted) const;

 private:
  void warn_if_not_finite(const MicroBatchSamples& wanted, const Tensor& samples) const;
  void check_indices(const MicroBatchSamples& wanted) const;
  Tensor empty_targets(const MicroBatchSamples& wanted) const;
  bool takes_part() const { return transform_ && transform_->takes_part(); }
  void transform(const std::uint8_t* pixels, std::int64_t epoch, std::uint32_t sample, Batch& batch,
                 std::int64_t row) const;
  void take_stored(const MicroBatchSamples& wanted, const StoredSamples& stored,
                   Batch& batch) const;
  void check_all_stored(const StoredSamples& stored) const;
  void apply_own(const MicroBatchSamples& wanted, Batch& batch) const;
  void read_each(const MicroBatchSamples& wanted, Batch& batch) const;

  Dataset dataset_;
  Split split_;
  MixOptions mix_;
  OwnTransform own_;
  std::uint64_t seed_;
  Device device_;
  DType dtype_;                               // of a batch's samples
  std::optional<SampleTransform> transform_;  // of samples of u8
  std::shared_ptr<std::atomic_flag> has_warned_ = std::make_shared<std::atomic_flag>();
};

}  // namespace troupe
