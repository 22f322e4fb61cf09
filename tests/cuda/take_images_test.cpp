#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "emulated.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"
#include "runtime/error.h"

namespace troupe::testing {
namespace {

/// Where an axis of so many pixels may begin, and its steps: all of it inside, some, none.
std::vector<std::pair<std::int64_t, std::int64_t>> starts(std::int64_t size) {
  std::vector<std::pair<std::int64_t, std::int64_t>> starts;
  for (const std::int64_t by : {std::int64_t{0}, std::int64_t{1}, std::int64_t{4}, size - 1, size})
    for (const std::int64_t moved : {by, -by}) {
      starts.emplace_back(moved, 1);
      starts.emplace_back(size - 1 + moved, -1);
    }
  return starts;
}

/// All of those of both axes, of images in turn; one before the first image and one after the last
/// are among them.
Tensor windows_for(const Shape& images) {
  std::vector<std::int64_t> numbers;
  std::int64_t image = -1;
  for (const auto& [top, down] : starts(images[2]))
    for (const auto& [left, right] : starts(images[3])) {
      for (const std::int64_t number : {image, top, down, left, right}) numbers.push_back(number);
      image = image == images[0] ? -1 : image + 1;
    }
  return Tensor::from<std::int64_t>({std::ssize(numbers) / 5, 5}, numbers);
}

class CudaTakeImages : public ::testing::TestWithParam<Shape> {};

TEST_P(CudaTakeImages, IsTheReferencesInEachWindow) {
  EmulatedStream stream;
  const Shape& shape = GetParam();
  // Of one image more, so that the others may begin at any byte.
  // No zero, which pixels outside have.
  const Tensor all = random_bytes(shape.with_outer(shape[0] + 1), 1), windows = windows_for(shape);
  const Tensor there = on_device(stream.get(), all), places = on_device(stream.get(), windows);
  for (const std::int64_t first : {0, 1}) {
    const Tensor x = all.narrow(first, shape[0]);
    const Tensor y = kernels(stream.get().device, DType::f32)
                         .take_images(stream.get(), there.narrow(first, shape[0]), places);
    const Tensor expected = reference::take_images({}, x, windows), found = on_cpu(stream.get(), y);
    ASSERT_EQ(found.dtype(), DType::u8);
    ASSERT_EQ(found.shape(), expected.shape());
    EXPECT_TRUE(std::equal(found.raw(), found.raw() + found.bytes(), expected.raw()));
  }
}

// Lines in packs and not; more pixels than one round of all threads; a single one.
INSTANTIATE_TEST_SUITE_P(All, CudaTakeImages,
                         ::testing::Values(Shape{3, 3, 8, 12}, Shape{4, 1, 28, 28},
                                           Shape{2, 3, 7, 7}, Shape{3, 2, 5, 3}, Shape{2, 4, 3, 4},
                                           Shape{5, 3, 1, 1}, Shape{1, 1, 1, 1}));

TEST(CudaTakeImagesArguments, MayBeNoWindowsAndRefusesOtherShapes) {
  EmulatedStream stream;
  const Tensor x = on_device(stream.get(), random_bytes({2, 3, 2, 2}));
  const auto take = [&](const Shape& windows) {
    return kernels(stream.get().device, DType::f32)
        .take_images(stream.get(), x, on_device(stream.get(), Tensor::zeros(windows, DType::i64)));
  };
  EXPECT_EQ(take({0, 5}).shape(), (Shape{0, 3, 2, 2}));
  EXPECT_THROW(take({2, 4}), Error);
}

}  // namespace
}  // namespace troupe::testing
