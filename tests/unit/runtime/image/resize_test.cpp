#include "runtime/image/resize.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "runtime/file/file.h"
#include "tests/unit/runtime/image/golden_images.h"

namespace troupe {
namespace {

// [3, rows, columns]
std::vector<int> resized(const Image& image, const ResizeAxis& columns, const ResizeAxis& rows) {
  const auto plane = static_cast<std::size_t>(columns.size() * rows.size());
  std::vector<std::uint8_t> out(3 * plane);
  resize({image.pixels.data(), image.size, 3}, columns, rows, out.data());
  return {out.begin(), out.end()};
}

Image open(const std::string& name) {
  const std::string bytes = test::read_text(test::golden_images / name);
  return decode_image(as_bytes(bytes), name);
}

TEST(Resize, GivesTheBytesOfTorchvisionForPartsOfImages) {
  const SafetensorsFile expected = test::expected_images();
  int parts = 0;
  for (const TensorInfo& tensor : expected.tensors()) {
    ImageBox box;
    char name[64];
    if (std::sscanf(tensor.name.c_str(), "part/%ld,%ld,%ld,%ld/%63s", &box.left, &box.top,
                    &box.width, &box.height, name) != 5)
      continue;
    SCOPED_TRACE(tensor.name);
    const std::vector<int> out =
        resized(open(name), {box.left, box.width, 16, 0, 16}, {box.top, box.height, 16, 0, 16});
    EXPECT_EQ(out, test::values_of(expected.read(tensor.name)));
    ++parts;
  }
  EXPECT_EQ(parts, 10);
}

// The vectors of the kernels read several bytes at a pixel: for any number of channels, and in the
// last row of memory.
TEST(Resize, GivesTheSameForEachChannelAlone) {
  const Image image = open("photo.png");
  const std::vector<int> together = resized(image, {30, 7, 11, 0, 11}, {20, 6, 9, 0, 9});
  for (std::size_t channel = 0; channel < 3; ++channel) {
    std::vector<std::uint8_t> plane(37 * 26), out(11 * 9);
    for (std::size_t i = 0; i < plane.size(); ++i) plane[i] = image.pixels[3 * i + channel];
    resize({plane.data(), image.size, 1}, {30, 7, 11, 0, 11}, {20, 6, 9, 0, 9}, out.data());
    EXPECT_EQ(
        (std::vector<int>{out.begin(), out.end()}),
        (std::vector<int>{together.begin() + static_cast<std::ptrdiff_t>(channel * 99),
                          together.begin() + static_cast<std::ptrdiff_t>(channel * 99 + 99)}));
  }
}

TEST(Resize, ComputesAWindowOfTheOutputAlone) {
  const Image image = open("photo.png");
  const std::vector<int> all = resized(image, {2, 30, 24, 0, 24}, {1, 20, 18, 0, 18});
  const std::vector<int> window = resized(image, {2, 30, 24, 5, 11}, {1, 20, 18, 4, 9});
  for (std::size_t channel = 0; channel < 3; ++channel)
    for (std::size_t y = 0; y < 9; ++y)
      for (std::size_t x = 0; x < 11; ++x)
        ASSERT_EQ(window[(channel * 9 + y) * 11 + x], all[(channel * 18 + y + 4) * 24 + x + 5]);
}

TEST(Resize, KeepsAnImageOfTheSameSize) {
  const Image image = open("photo.png");
  const std::vector<int> out = resized(image, {0, 37, 37, 0, 37}, {0, 26, 26, 0, 26});
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    ASSERT_EQ(out[i % 3 * 37 * 26 + i / 3], image.pixels[i]);
}

}  // namespace
}  // namespace troupe
