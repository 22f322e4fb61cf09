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
    for (int channel = 0; channel < 3; ++channel)
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

/// The different results for 2,000 samples of one image.
template <class Augment>
std::map<Bytes, int> seen(const Augment& augment) {
  std::map<Bytes, int> all;
  for (std::uint32_t sample = 0; sample < 2000; ++sample) {
    Bytes image;
    for (int i = 0; i < 3 * 17 * 21; ++i) image.push_back(static_cast<std::uint8_t>(i * i % 251));
    augment(SizedImage{{image, 3}, 17, 21}, RandomKey{.seed = 1, .micro_batch = sample});
    ++all[image];
  }
  return all;
}

// Ten operations have 30 magnitudes and signs, two have magnitudes, three have none; some results
// are alike, such as those of small translations.
TEST(AutoAugment, DrawsAnOperationAndItsStrengthForEachSample) {
  const auto trivial = seen(trivial_augment), rand = seen(rand_augment);
  EXPECT_GT(trivial.size(), 250u);
  EXPECT_LT(trivial.size(), 560u);
  // 9 operations with two signs, 5 without (one leaves the image as it is): 23 x 23 pairs.
  EXPECT_GT(rand.size(), 250u);
  EXPECT_LT(rand.size(), 530u);
  for (const auto policy : {AutoAugmentPolicy::imagenet, AutoAugmentPolicy::cifar10}) {
    const auto learned = seen([policy](const SizedImage& image, const RandomKey& key) {
      auto_augment(image, policy, key);
    });
    EXPECT_GT(learned.size(), 50u);
    EXPECT_LT(learned.size(), 150u);
  }
}

TEST(AutoAugment, GivesASampleTheSameBytesAgain) {
  EXPECT_EQ(seen(trivial_augment), seen(trivial_augment));
  EXPECT_EQ(seen(rand_augment), seen(rand_augment));
}

}  // namespace
}  // namespace troupe
