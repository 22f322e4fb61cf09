#pragma once
// Random choices among operations on images that were published as one augmentation.

#include "actors/data/image_operations.h"
#include "runtime/random.h"

namespace troupe {

// In place, with the operations, magnitudes and probabilities of torchvision's transforms of these
// names and their defaults.

/// One of 14 operations, of random strength (S. Müller, F. Hutter, "TrivialAugment", ICCV 2021; the
/// wide set).
void trivial_augment(const SizedImage& image, const RandomKey& key);

/// Two of 14 operations, each at 9/30 of its largest strength (E. Cubuk et al., "RandAugment",
/// NeurIPS 2020).
void rand_augment(const SizedImage& image, const RandomKey& key);

/// One of 25 pairs of operations, each with a probability of its own (E. Cubuk et al.,
/// "AutoAugment", CVPR 2019): those that were learned on ImageNet, or on CIFAR-10.
enum class AutoAugmentPolicy : std::uint8_t { imagenet, cifar10 };
void auto_augment(const SizedImage& image, AutoAugmentPolicy policy, const RandomKey& key);

}  // namespace troupe
