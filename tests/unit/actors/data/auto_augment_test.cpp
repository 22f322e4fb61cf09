#include "actors/data/auto_augment.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/runtime/image/golden_images.h"

namespace troupe {
namespace {

using Bytes = std::vector<std::uint8_t>;

const std::map<std::string, ImageOperation> operations{
    {"Identity", ImageOperation::identity},
    {"ShearX", ImageOperation::shear_x},
    {"ShearY", ImageOperation::shear_y},
    {"TranslateX", ImageOperation::translate_x},
    {"TranslateY", ImageOperation::translate_y},
    {"Rotate", ImageOperation::rotate},
    {"Brightness", ImageOperation::brightness},
    {"Color", ImageOperation::color},
    {"Contrast", ImageOperation::contrast},
    {"Sharpness", ImageOperation::sharpness},
    {"Posterize", ImageOperation::posterize},
    {"Solarize", ImageOperation::solarize},
    {"AutoContrast", ImageOperation::auto_contrast},
    {"Invert", ImageOperation::invert}};

SizedImage sized(const Tensor& image) {
  return {{image.elements<std::uint8_t>(), image.shape()[0]}, image.shape()[1], image.shape()[2]};
}

TEST(ImageOperations, GiveTheBytesOfTorchvision) {
  const SafetensorsFile expected = test::expected_images();
  std::set<std::string> compared;
  for (const TensorInfo& info : expected.tensors()) {
    constexpr std::string_view prefix = "operation/";
    if (!info.name.starts_with(prefix)) continue;
    SCOPED_TRACE(info.name);
    const auto comma = info.name.find(',');
    const std::string name = info.name.substr(prefix.size(), comma - prefix.size());
    const Tensor image = expected.read("part/7,9,16,16/photo.png");
    Tensor rows = Tensor::empty({3, 13, 16}, DType::u8, Device::cpu());
    for (std::int64_t channel = 0; channel < 3; ++channel)
      std::copy_n(image.data<std::uint8_t>() + channel * 256, 208,
                  rows.data<std::uint8_t>() + channel * 208);
    change_image(sized(rows), operations.at(name), std::stod(info.name.substr(comma + 1)));
    EXPECT_EQ(test::values_of(rows), test::values_of(expected.read(info.name)));
    compared.insert(name);
  }
  EXPECT_EQ(compared.size(), operations.size());
}

TEST(ImageOperations, EqualizeToTheBytesOfTorchvision) {
  const SafetensorsFile expected = test::expected_images();
  const Tensor photo = expected.read("decoded/photo.png");  // channels last
  const std::int64_t pixels = photo.element_count() / 3;
  Tensor planes = Tensor::empty({3, photo.shape()[0], photo.shape()[1]}, DType::u8, Device::cpu());
  for (std::int64_t i = 0; i < photo.element_count(); ++i)
    planes.data<std::uint8_t>()[i % 3 * pixels + i / 3] = photo.data<std::uint8_t>()[i];
  change_image(sized(planes), ImageOperation::equalize, 0);
  EXPECT_EQ(test::values_of(planes), test::values_of(expected.read("equalized")));
}

TEST(ImageOperations, TakeGreyImagesOfAnySize) {
  for (const auto& [height, width] : {std::pair{1, 1}, {2, 5}, {1, 7}, {3, 3}, {28, 28}})
    for (int number = 0; number <= static_cast<int>(ImageOperation::invert); ++number) {
      Bytes image(static_cast<std::size_t>(height * width), 100);
      const auto operation = static_cast<ImageOperation>(number);
      change_image({{image, 1}, height, width}, operation, -0.3);
      if (operation == ImageOperation::color || operation == ImageOperation::auto_contrast ||
          operation == ImageOperation::equalize || operation == ImageOperation::sharpness) {
        EXPECT_EQ(image, Bytes(image.size(), 100)) << number;
      }
    }
  Bytes none;
  change_image({{none, 1}, 0, 5}, ImageOperation::equalize, 0);
}

/// A part of the photo, as make_images.py takes it.
Bytes part_of_photo() {
  const Tensor photo = test::expected_images().read("decoded/photo.png");  // channels last
  Bytes part;
  for (int channel = 0; channel < 3; ++channel)
    for (int y = 2; y < 18; ++y)
      for (int x = 3; x < 23; ++x)
        part.push_back(photo.data<std::uint8_t>()[(y * photo.shape()[1] + x) * 3 + channel]);
  return part;
}

/// FNV-1a of 64 bits.
std::int64_t hashed(const Bytes& bytes) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const std::uint8_t byte : bytes) value = (value ^ byte) * 0x100000001b3u;
  return static_cast<std::int64_t>(value);
}

/// The hashes of what the augmentation makes of 20,000 samples of one image.
template <class Augment>
std::set<std::int64_t> seen(const Augment& augment) {
  std::set<std::int64_t> all;
  const Bytes photo = part_of_photo();
  for (std::uint32_t sample = 0; sample < 20000; ++sample) {
    Bytes image = photo;
    augment(SizedImage{{image, 3}, 16, 20}, RandomKey{.seed = 1, .micro_batch = sample});
    all.insert(hashed(image));
  }
  return all;
}

/// Expects all of torchvision's results and no others, but for a few: those with a moved pixel that
/// lies halfway between two.
template <class Augment>
void expect_the_results_of_torchvision(const std::string& name, const Augment& augment) {
  SCOPED_TRACE(name);
  const Tensor hashes = test::expected_images().read("possible/" + name);
  const std::set<std::int64_t> possible(hashes.data<std::int64_t>(),
                                        hashes.data<std::int64_t>() + hashes.element_count());
  std::size_t others = 0, missing = 0;
  const std::set<std::int64_t> found = seen(augment);
  for (const std::int64_t hash : found) others += possible.contains(hash) ? 0 : 1;
  for (const std::int64_t hash : possible) missing += found.contains(hash) ? 0 : 1;
  EXPECT_LE(others, possible.size() / 30);
  EXPECT_LE(missing, possible.size() / 30);
  EXPECT_GT(possible.size(), 50u);
}

TEST(AutoAugment, HasThePoliciesOfTorchvision) {
  for (const auto& [name, policy] : {std::pair{"imagenet", AutoAugmentPolicy::imagenet},
                                     {"cifar10", AutoAugmentPolicy::cifar10}}) {
    const Tensor expected = test::expected_images().read(fmt::format("policy/{}", name));
    const auto pairs = pairs_of(policy);
    ASSERT_EQ(expected.shape(), (Shape{std::ssize(pairs), 2, 3}));
    const double* value = expected.data<double>();
    for (std::size_t pair = 0; pair < pairs.size(); ++pair)
      for (const PolicyOperation& one : pairs[pair]) {
        SCOPED_TRACE(fmt::format("pair {} of {}", pair, name));
        EXPECT_EQ(static_cast<double>(one.operation), *value++);
        EXPECT_EQ(one.probability, static_cast<float>(*value++));
        EXPECT_EQ(one.step, *value++);
      }
  }
}

TEST(AutoAugment, GivesWhatTorchvisionMayGive) {
  expect_the_results_of_torchvision("trivial_augment", trivial_augment);
  expect_the_results_of_torchvision("rand_augment", rand_augment);
  for (const auto& [name, policy] :
       {std::pair{"auto_augment_imagenet", AutoAugmentPolicy::imagenet},
        {"auto_augment_cifar10", AutoAugmentPolicy::cifar10}})
    expect_the_results_of_torchvision(
        name, [policy = policy](const SizedImage& image, const RandomKey& key) {
          auto_augment(image, policy, key);
        });
}

TEST(AutoAugment, GivesASampleTheSameBytesAgain) {
  EXPECT_EQ(seen(trivial_augment), seen(trivial_augment));
  EXPECT_EQ(seen(rand_augment), seen(rand_augment));
}

}  // namespace
}  // namespace troupe
