#include "actors/data/color_jitter.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/runtime/image/golden_images.h"

namespace troupe {
namespace {

TEST(ColorJitter, GivesTheBytesOfTorchvision) {
  const SafetensorsFile expected = test::expected_images();
  for (const std::string factor : {"0.0", "0.6", "1.0", "1.4"})
    for (const auto& [name, adjust] :
         {std::pair{"brightness", &adjust_brightness}, std::pair{"contrast", &adjust_contrast},
          std::pair{"saturation", &adjust_saturation}}) {
      SCOPED_TRACE(name + (" " + factor));
      const Tensor image = expected.read("part/7,9,16,16/photo.png");
      adjust({image.elements<std::uint8_t>(), 3}, std::stod(factor));
      EXPECT_EQ(test::values_of(image),
                test::values_of(expected.read(std::string("jitter/") + name + "," + factor)));
    }
}

TEST(ColorJitter, TurnsTheHueToTheBytesOfTorchvision) {
  const SafetensorsFile expected = test::expected_images();
  for (const std::string turn : {"-0.5", "-0.1", "0.0", "0.3"}) {
    SCOPED_TRACE(turn);
    const Tensor image = expected.read("part/7,9,16,16/photo.png");
    adjust_hue({image.elements<std::uint8_t>(), 3}, std::stod(turn));
    EXPECT_EQ(test::values_of(image), test::values_of(expected.read("jitter/hue," + turn)));
  }
}

TEST(ColorJitter, LeavesTheHueOfGreyAlone) {
  for (const int channels : {1, 3}) {
    std::vector<std::uint8_t> image{0, 100, 255, 0, 100, 255, 0, 100, 255};
    const std::vector<std::uint8_t> before = image;
    adjust_hue({image, channels}, 0.3);
    EXPECT_EQ(image == before, true) << channels;
  }
  std::vector<std::uint8_t> red{255, 0, 0};
  adjust_hue({red, 3}, 1.0 / 3);
  EXPECT_EQ(red, (std::vector<std::uint8_t>{0, 255, 0}));
}

TEST(ColorJitter, ChangesGreyImagesWithoutSaturation) {
  std::vector<std::uint8_t> image{0, 100, 200};
  adjust_saturation({image, 1}, 0);
  EXPECT_EQ(image, (std::vector<std::uint8_t>{0, 100, 200}));
  adjust_contrast({image, 1}, 0.5);
  EXPECT_EQ(image, (std::vector<std::uint8_t>{50, 100, 150}));
  adjust_brightness({image, 1}, 2);
  EXPECT_EQ(image, (std::vector<std::uint8_t>{100, 200, 255}));
}

// The results for 300 samples of one image.
std::set<std::vector<std::uint8_t>> seen(const ColorRanges& ranges) {
  std::set<std::vector<std::uint8_t>> all;
  for (std::uint32_t sample = 0; sample < 300; ++sample) {
    std::vector<std::uint8_t> image{10, 200, 90, 120, 30, 220};
    color_jitter({image, 3}, ranges, {.seed = 1, .micro_batch = sample});
    all.insert(image);
  }
  return all;
}

TEST(ColorJitter, DrawsFactorsForEachSample) {
  EXPECT_EQ(seen({}).size(), 1u);
  EXPECT_GT(seen({.brightness = 0.4}).size(), 50u);
  EXPECT_GT(seen({.contrast = 0.4}).size(), 50u);
  EXPECT_GT(seen({.saturation = 0.4}).size(), 50u);
  EXPECT_GT(seen({.hue = 0.5}).size(), 50u);
  EXPECT_GT(seen({0.4, 0.4, 0.4}).size(), 250u);
  EXPECT_GT(seen({0.4, 0.4, 0.4, 0.1}).size(), 250u);
  EXPECT_GT(seen({.brightness = 3}).size(), 50u);  // no factor is below 0
}

}  // namespace
}  // namespace troupe
