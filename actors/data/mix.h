#pragma once
// Mixing the samples of a micro-batch with each other.

#include <cstdint>

#include "ops/loss.h"
#include "runtime/flow/header.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// Parameters of Beta(alpha, alpha), from which the share of a sample is drawn; 0: not used. With
/// both, each micro-batch is mixed in one of the two ways, drawn with equal probability.
struct MixOptions {
  /// H. Zhang et al., "mixup: beyond empirical risk minimization", ICLR 2018: each sample becomes
  /// share * sample + (1 - share) * partner.
  double mixup_alpha = 0;
  /// S. Yun et al., "CutMix", ICCV 2019: a rectangle of each image shows its partner, about 1 -
  /// share of the area; the share is then that of the pixels which stay.
  double cutmix_alpha = 0;

  bool any() const { return mixup_alpha > 0 || cutmix_alpha > 0; }
};

/// Throws Error{bad_options} for parameters that are negative or not finite, and for cutmix_alpha
/// with samples other than [channels, height, width].
void check(const MixOptions& options, const Shape& sample);
/// Throws Error{bad_options} for mixed samples with a loss of other targets than classes.
void check_fits(const LossFunction& loss, const MixOptions& options);

/// Mixes the samples [n, …] of f32 or f64 of a micro-batch in place and returns the share of each
/// sample's own target, in [0, 1]; its partner has the rest. The partner of sample i is sample
/// i - 1, that of the first is the last, as in torchvision's MixUp and CutMix. A pure function: the
/// random numbers are keyed by seed, step and micro-batch.
double mix(const MixOptions& options, std::uint64_t seed, const MessageKey& key, Tensor& samples);

}  // namespace troupe
