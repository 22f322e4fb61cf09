// copy, fill, scale and fold of every table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/on_device.h"
#include "runtime/error.h"

namespace troupe {
namespace {

using testing::Each;
using testing::ElementsAre;

template <class T>
Tensor of(std::initializer_list<T> values) {
  return Tensor::from<T>({std::ssize(values)}, std::span(values.begin(), values.size()));
}

/// Runs for each table with its element type.
void for_each_table(const auto& check) {
  check(kernels({}, DType::f32), float{});
  check(kernels({}, DType::f64), double{});
}

TEST(MemoryKernels, CopyTensorsOfAnyType) {
  for_each_table([](const KernelTable& table, auto) {
    const Tensor from = of<std::int64_t>({3, -1, 7});
    Tensor to = of<std::int64_t>({0, 0, 0});
    table.copy({}, from, to);
    EXPECT_THAT(to.elements<std::int64_t>(), ElementsAre(3, -1, 7));
    Tensor none = Tensor::zeros({0});
    table.copy({}, Tensor::zeros({0}), none);
  });
}

TEST(MemoryKernels, CopyConvertsBetweenFloatingTypes) {
  for_each_table([](const KernelTable& table, auto) {
    Tensor narrow = of<float>({0}), wide = of<double>({0});
    table.copy({}, of<double>({0.1}), narrow);
    EXPECT_EQ(*narrow.data<float>(), 0.1f);
    table.copy({}, narrow, wide);
    EXPECT_EQ(*wide.data<double>(), double{0.1f});
  });
}

TEST(MemoryKernels, CopyRefusesOtherShapesAndTypes) {
  for_each_table([](const KernelTable& table, auto) {
    Tensor two = of<float>({0, 0}), counts = of<std::int64_t>({0});
    EXPECT_THROW(table.copy({}, of<float>({1}), two), Error);
    EXPECT_THROW(table.copy({}, of<float>({1}), counts), Error);
  });
}

TEST(MemoryKernels, FillAndZero) {
  for_each_table([](const KernelTable& table, auto type) {
    using T = decltype(type);
    Tensor tensor = of<T>({1, 2, 3});
    table.fill({}, 0.5, tensor);
    EXPECT_THAT(tensor.elements<T>(), Each(T(0.5)));
    EXPECT_THAT(zeros({}, {4}, dtype_of<T>).template elements<T>(), Each(T(0)));
  });
}

TEST(MemoryKernels, ScaleInDoublePrecision) {
  for_each_table([](const KernelTable& table, auto type) {
    using T = decltype(type);
    Tensor to = of<T>({0, 0});
    table.scale({}, of<T>({3, -1}), 1.0 / 3.0, to);
    EXPECT_THAT(to.elements<T>(), ElementsAre(T(1), T(-1.0 / 3.0)));
    table.scale({}, of<double>({1e-3, 2}), 0.1, to);
    EXPECT_THAT(to.elements<T>(), ElementsAre(T(1e-3 * 0.1), T(0.2)));
  });
}

TEST(MemoryKernels, FoldAsPyTorchsRunningStatistics) {
  for_each_table([](const KernelTable& table, auto type) {
    using T = decltype(type);
    Tensor running = of<T>({1, 0});
    table.fold({}, of<T>({3, 10}), 0.25, running);
    EXPECT_THAT(running.elements<T>(), ElementsAre(T(1.5), T(2.5)));
  });
}

TEST(MemoryKernels, SumSquaresInDoublePrecisionWhateverTheThreads) {
  for_each_table([]<class T>(const KernelTable& table, T) {
    std::vector<Tensor> tensors;
    std::vector<double> exactly;
    for (const std::int64_t count : {0, 1, 15, 17, 16384, 100'003}) {
      std::vector<T> values(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<T>(static_cast<double>(i % 1000) * 1e-3 - 0.4);
      tensors.push_back(Tensor::from<T>({count}, values));
      long double exact = 0;
      for (const T value : values) exact += static_cast<long double>(value) * value;
      exactly.push_back(static_cast<double>(exact));
    }
    Tensor one = Tensor::empty({std::ssize(tensors)}, DType::f64, Device::cpu());
    Tensor three = Tensor::empty({std::ssize(tensors)}, DType::f64, Device::cpu());
    table.square_sums({.threads = 1}, tensors, one);
    table.square_sums({.threads = 3}, tensors, three);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_NEAR(one.elements<double>()[i], exactly[i], 1e-13 * exactly[i]);
      EXPECT_EQ(one.elements<double>()[i], three.elements<double>()[i]);
    }
  });
}

TEST(MemoryKernels, LookUpBytesByChannelInEachLayout) {
  for_each_table([]<class T>(const KernelTable& table, T) {
    const std::int64_t images = 3, channels = 2, height = 3, width = 5;
    Tensor x = Tensor::empty({images, channels, height, width}, DType::u8, Device::cpu());
    for (std::int64_t i = 0; i < x.element_count(); ++i)
      x.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(37 * i);
    Tensor values = Tensor::empty({channels, 256}, dtype_of<T>, Device::cpu());
    for (std::int64_t i = 0; i < values.element_count(); ++i)
      values.data<T>()[i] = static_cast<T>(0.1) * static_cast<T>(i);
    const Tensor rows = table.look_up({.threads = 2}, x, values, Layout::row_major);
    const Tensor pixels = table.look_up({.threads = 1}, x, values, Layout::nhwc);
    EXPECT_EQ(pixels.layout(), Layout::nhwc);
    std::int64_t i = 0;
    for (std::int64_t n = 0; n < images; ++n)
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t p = 0; p < height * width; ++p, ++i) {
          const T expected = values.data<T>()[c * 256 + x.data<std::uint8_t>()[i]];
          ASSERT_EQ(rows.data<T>()[i], expected);
          ASSERT_EQ(pixels.data<T>()[(n * height * width + p) * channels + c], expected);
        }
  });
}

TEST(MemoryKernels, LookUpNumbersOfSixteenBits) {
  for_each_table([](const KernelTable& table, auto) {
    Tensor x = Tensor::zeros({1, 1, 1, 3}, DType::u8);
    x.data<std::uint8_t>()[2] = 255;
    Tensor values = Tensor::zeros({1, 256}, DType::bf16);
    values.data<BFloat16>()[0] = {1}, values.data<BFloat16>()[255] = {7};
    const Tensor y = table.look_up({}, x, values, Layout::row_major);
    ASSERT_EQ(y.dtype(), DType::bf16);
    EXPECT_EQ(y.data<BFloat16>()[1].bits, 1);
    EXPECT_EQ(y.data<BFloat16>()[2].bits, 7);
  });
}

TEST(MemoryKernels, LookUpRefusesOtherTypesAndShapes) {
  for_each_table([](const KernelTable& table, auto) {
    const Tensor x = Tensor::zeros({1, 2, 3, 3}, DType::u8), values = Tensor::zeros({2, 256});
    EXPECT_NO_THROW(table.look_up({}, x, values, Layout::row_major));
    EXPECT_THROW(table.look_up({}, x, Tensor::zeros({3, 256}), Layout::row_major), Error);
    EXPECT_THROW(table.look_up({}, x, values, Layout::nchw16c), Error);
    EXPECT_THROW(table.look_up({}, Tensor::zeros({2, 3, 3}, DType::u8), values, Layout::row_major),
                 Error);
    EXPECT_THROW(table.look_up({}, Tensor::zeros({1, 2, 3, 3}), values, Layout::row_major), Error);
  });
}

TEST(MemoryKernels, TakeImagesByWindowsThatMoveAndMirror) {
  for_each_table([](const KernelTable& table, auto) {
    Tensor x = Tensor::empty({2, 1, 2, 3}, DType::u8, Device::cpu());
    for (std::int64_t i = 0; i < x.element_count(); ++i)
      x.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(10 * (1 + i / 6) + i % 6);
    // image, top, down, left, right
    const Tensor windows = Tensor::from<std::int64_t>(
        {5, 5}, std::vector<std::int64_t>{1, 0, 1,  0,  1,    // as it is
                                          0, 0, 1,  2,  -1,   // left to right
                                          0, 1, -1, 0,  1,    // top to bottom
                                          1, 1, 1,  -1, 1,    // up and to the right
                                          2, 0, 1,  0,  1});  // none
    const Tensor y = table.take_images({.threads = 2}, x, windows);
    ASSERT_EQ(y.shape(), (Shape{5, 1, 2, 3}));
    EXPECT_THAT(y.elements<std::uint8_t>(), ElementsAre(20, 21, 22, 23, 24, 25,  //
                                                        12, 11, 10, 15, 14, 13,  //
                                                        13, 14, 15, 10, 11, 12,  //
                                                        0, 23, 24, 0, 0, 0,      //
                                                        0, 0, 0, 0, 0, 0));
  });
}

TEST(MemoryKernels, TakeImagesRefusesOtherTypesAndShapes) {
  for_each_table([](const KernelTable& table, auto) {
    const Tensor x = Tensor::zeros({2, 1, 3, 3}, DType::u8);
    const Tensor windows = Tensor::zeros({4, 5}, DType::i64);
    EXPECT_EQ(table.take_images({}, x, windows).dim(0), 4);
    EXPECT_THROW(table.take_images({}, Tensor::zeros({2, 3, 3}, DType::u8), windows), Error);
    EXPECT_THROW(table.take_images({}, Tensor::zeros({2, 1, 3, 3}), windows), Error);
    EXPECT_THROW(table.take_images({}, x, Tensor::zeros({4, 4}, DType::i64)), Error);
    EXPECT_THROW(table.take_images({}, x, Tensor::zeros({4, 5})), Error);
  });
}

TEST(OnDevice, CopiesOnlyWhatLiesElsewhereOrHasAnotherType) {
  const Tensor tensor = of<float>({1, 2});
  EXPECT_EQ(on_device({}, tensor).raw(), tensor.raw());
  EXPECT_EQ(on_device({}, tensor, DType::f32).raw(), tensor.raw());
  EXPECT_EQ(on_cpu({}, tensor).raw(), tensor.raw());
  EXPECT_EQ(on_device({}, tensor, DType::f64).data<double>()[1], 2.0);
  EXPECT_FALSE(on_device({}, Tensor()).defined());
}

}  // namespace
}  // namespace troupe
