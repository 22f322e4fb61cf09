#pragma once
// TrivialAugment, RandAugment and AutoAugment, which apply operations of image_operations.h at
// random.

#include <array>
#include <span>

#include "actors/data/image_operations.h"
#include "runtime/random.h"

namespace troupe {

// All work in place, with the operations, magnitudes and probabilities that torchvision's
// transforms have by default.

/// One of 14 operations, of random strength (S. Müller, F. Hutter, "TrivialAugment", ICCV 2021; the
/// wide set).
void trivial_augment(const SizedImage& image, const RandomKey& key);

/// Two of 14 operations, each at 9/30 of its largest strength (E. Cubuk et al., "RandAugment",
/// NeurIPS 2020).
void rand_augment(const SizedImage& image, const RandomKey& key);

/// The policies learned on ImageNet and on CIFAR-10 (E. Cubuk et al., "AutoAugment", CVPR 2019).
enum class AutoAugmentPolicy : std::uint8_t { imagenet, cifar10 };

/// An operation of a policy, with the step of its magnitude from 0 to 9.
struct PolicyOperation {
  ImageOperation operation;
  float probability;
  int step = 0;
};
/// The 25 pairs of operations of a policy.
std::span<const std::array<PolicyOperation, 2>> pairs_of(AutoAugmentPolicy policy);

/// One of the pairs, each operation with its probability.
void auto_augment(const SizedImage& image, AutoAugmentPolicy policy, const RandomKey& key);

}  // namespace troupe
