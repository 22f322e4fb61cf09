#include "actors/data/auto_augment.h"

#include <cmath>

namespace troupe {
namespace {

using enum ImageOperation;

/// The largest magnitudes of a set of operations.
struct Magnitudes {
  double shear, translate_x, translate_y, rotate, factor;
  double bits;  ///< that posterize drops
};

/// Of the policies and of rand_augment. AutoAugment shifts images of 331 pixels by up to 150.
Magnitudes moderate(const SizedImage& image) {
  return {.shear = 0.3,
          .translate_x = 150.0 / 331.0 * static_cast<double>(image.width),
          .translate_y = 150.0 / 331.0 * static_cast<double>(image.height),
          .rotate = 30,
          .factor = 0.9,
          .bits = 4};
}
constexpr Magnitudes wide{
    .shear = 0.99, .translate_x = 32, .translate_y = 32, .rotate = 135, .factor = 0.99, .bits = 6};

bool has_sign(ImageOperation operation) { return operation >= shear_x && operation <= sharpness; }

double largest_of(ImageOperation operation, const Magnitudes& most) {
  switch (operation) {
    case shear_x:
    case shear_y:
      return most.shear;
    case translate_x:
      return most.translate_x;
    case translate_y:
      return most.translate_y;
    case rotate:
      return most.rotate;
    case brightness:
    case color:
    case contrast:
    case sharpness:
      return most.factor;
    default:
      return 0;  // solarize falls from 255 to it; the others have no magnitude here
  }
}

/// The magnitude at `step` of `steps` equal ones from none to the largest, in f32 as
/// torch.linspace.
double magnitude_of(ImageOperation operation, const Magnitudes& most, int step, int steps) {
  if (operation == posterize) return 8 - std::nearbyint(step * most.bits / steps);
  const float from = operation == solarize ? 255 : 0;
  const auto to = static_cast<float>(largest_of(operation, most));
  const float each = (to - from) / static_cast<float>(steps);
  return step < (steps + 1) / 2 ? from + each * static_cast<float>(step)
                                : to - each * static_cast<float>(steps - step);
}

/// Uniform in [0, count).
std::size_t pick(std::uint32_t bits, std::size_t count) {
  return static_cast<std::size_t>((std::uint64_t{bits} * count) >> 32);
}

/// What trivial_augment and rand_augment choose from.
constexpr std::array choices{identity,  shear_x,    shear_y,       translate_x, translate_y,
                             rotate,    brightness, color,         contrast,    sharpness,
                             posterize, solarize,   auto_contrast, equalize};

void change(const SizedImage& image, ImageOperation operation, double magnitude,
            std::uint32_t sign) {
  const bool negative = has_sign(operation) && sign >> 31 != 0;
  change_image(image, operation, negative ? -magnitude : magnitude);
}

using Pair = std::array<PolicyOperation, 2>;

constexpr Pair of_imagenet[] = {
    {{{posterize, 0.4f, 8}, {rotate, 0.6f, 9}}}, {{{solarize, 0.6f, 5}, {auto_contrast, 0.6f}}},
    {{{equalize, 0.8f}, {equalize, 0.6f}}},      {{{posterize, 0.6f, 7}, {posterize, 0.6f, 6}}},
    {{{equalize, 0.4f}, {solarize, 0.2f, 4}}},   {{{equalize, 0.4f}, {rotate, 0.8f, 8}}},
    {{{solarize, 0.6f, 3}, {equalize, 0.6f}}},   {{{posterize, 0.8f, 5}, {equalize, 1.0f}}},
    {{{rotate, 0.2f, 3}, {solarize, 0.6f, 8}}},  {{{equalize, 0.6f}, {posterize, 0.4f, 6}}},
    {{{rotate, 0.8f, 8}, {color, 0.4f, 0}}},     {{{rotate, 0.4f, 9}, {equalize, 0.6f}}},
    {{{equalize, 0.0f}, {equalize, 0.8f}}},      {{{invert, 0.6f}, {equalize, 1.0f}}},
    {{{color, 0.6f, 4}, {contrast, 1.0f, 8}}},   {{{rotate, 0.8f, 8}, {color, 1.0f, 2}}},
    {{{color, 0.8f, 8}, {solarize, 0.8f, 7}}},   {{{sharpness, 0.4f, 7}, {invert, 0.6f}}},
    {{{shear_x, 0.6f, 5}, {equalize, 1.0f}}},    {{{color, 0.4f, 0}, {equalize, 0.6f}}},
    {{{equalize, 0.4f}, {solarize, 0.2f, 4}}},   {{{solarize, 0.6f, 5}, {auto_contrast, 0.6f}}},
    {{{invert, 0.6f}, {equalize, 1.0f}}},        {{{color, 0.6f, 4}, {contrast, 1.0f, 8}}},
    {{{equalize, 0.8f}, {equalize, 0.6f}}}};

constexpr Pair of_cifar10[] = {{{{invert, 0.1f}, {contrast, 0.2f, 6}}},
                               {{{rotate, 0.7f, 2}, {translate_x, 0.3f, 9}}},
                               {{{sharpness, 0.8f, 1}, {sharpness, 0.9f, 3}}},
                               {{{shear_y, 0.5f, 8}, {translate_y, 0.7f, 9}}},
                               {{{auto_contrast, 0.5f}, {equalize, 0.9f}}},
                               {{{shear_y, 0.2f, 7}, {posterize, 0.3f, 7}}},
                               {{{color, 0.4f, 3}, {brightness, 0.6f, 7}}},
                               {{{sharpness, 0.3f, 9}, {brightness, 0.7f, 9}}},
                               {{{equalize, 0.6f}, {equalize, 0.5f}}},
                               {{{contrast, 0.6f, 7}, {sharpness, 0.6f, 5}}},
                               {{{color, 0.7f, 7}, {translate_x, 0.5f, 8}}},
                               {{{equalize, 0.3f}, {auto_contrast, 0.4f}}},
                               {{{translate_y, 0.4f, 3}, {sharpness, 0.2f, 6}}},
                               {{{brightness, 0.9f, 6}, {color, 0.2f, 8}}},
                               {{{solarize, 0.5f, 2}, {invert, 0.0f}}},
                               {{{equalize, 0.2f}, {auto_contrast, 0.6f}}},
                               {{{equalize, 0.2f}, {equalize, 0.6f}}},
                               {{{color, 0.9f, 9}, {equalize, 0.6f}}},
                               {{{auto_contrast, 0.8f}, {solarize, 0.2f, 8}}},
                               {{{brightness, 0.1f, 3}, {color, 0.7f, 0}}},
                               {{{solarize, 0.4f, 5}, {auto_contrast, 0.9f}}},
                               {{{translate_y, 0.9f, 9}, {translate_y, 0.7f, 9}}},
                               {{{auto_contrast, 0.9f}, {solarize, 0.8f, 3}}},
                               {{{equalize, 0.8f}, {invert, 0.1f}}},
                               {{{translate_y, 0.7f, 9}, {auto_contrast, 0.9f}}}};

}  // namespace

void trivial_augment(const SizedImage& image, const RandomKey& key) {
  constexpr int steps = 30;
  const auto drawn = key.block(0);
  const ImageOperation operation = choices[pick(drawn[0], choices.size())];
  const auto step = static_cast<int>(pick(drawn[1], steps + 1));
  change(image, operation, magnitude_of(operation, wide, step, steps), drawn[2]);
}

void rand_augment(const SizedImage& image, const RandomKey& key) {
  const auto drawn = key.block(0);
  for (const std::size_t number : {0, 2}) {
    const ImageOperation operation = choices[pick(drawn[number], choices.size())];
    change(image, operation, magnitude_of(operation, moderate(image), 9, 30), drawn[number + 1]);
  }
}

std::span<const std::array<PolicyOperation, 2>> pairs_of(AutoAugmentPolicy policy) {
  return policy == AutoAugmentPolicy::imagenet ? std::span(of_imagenet) : std::span(of_cifar10);
}

void auto_augment(const SizedImage& image, AutoAugmentPolicy policy, const RandomKey& key) {
  const auto all = pairs_of(policy);
  const auto drawn = key.block(0), signs = key.block(1);
  const Pair& chosen = all[pick(drawn[0], all.size())];
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const auto& [operation, probability, step] = chosen[i];
    if (uniform_float(drawn[1 + i]) < probability)
      change(image, operation, magnitude_of(operation, moderate(image), step, 9), signs[i]);
  }
}

}  // namespace troupe
