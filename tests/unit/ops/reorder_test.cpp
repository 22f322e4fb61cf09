#include "ops/cpu/reorder.h"

#include <gmock/gmock.h>

#include <bit>

#include "convolution_oracle.h"
#include "runtime/error.h"

namespace troupe {
namespace {

using testing::HasSubstr;

TEST(Reorder, MovesEveryElementBetweenAnyTwoLayouts) {
  for (const Shape& shape : {Shape{2, 32, 7, 5}, Shape{1, 16, 1, 1}, Shape{3, 48, 4, 16},
                             Shape{2, 5, 3, 4}, Shape{1, 1, 28, 28}, Shape{4, 3, 1, 9}}) {
    std::vector<Layout> layouts{Layout::row_major, Layout::nhwc};
    if (shape[1] % 16 == 0) layouts.push_back(Layout::nchw16c);
    const auto values = oracle::random_values(shape.element_count(), 5);
    for (Layout from : layouts)
      for (Layout to : layouts)
        for (int threads : {1, 2}) {
          SCOPED_TRACE(to_string(shape) + " " + std::string(name_of(from)) + " to " +
                       std::string(name_of(to)));
          Tensor result = Tensor::zeros(shape, DType::f32, to);
          cpu::reorder({.threads = threads}, oracle::to_tensor(shape, values, from), result);
          EXPECT_EQ(oracle::to_values(result), values);
          EXPECT_EQ(result.layout(), to);
        }
  }
}

TEST(Reorder, RoundsToTheNearestBf16AndToEvenBetweenTwo) {
  const std::vector<std::pair<std::uint32_t, std::uint16_t>> bits{
      {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f808001, 0x3f81}, {0x3f818000, 0x3f82},
      {0xbf817fff, 0xbf81}, {0x00000000, 0x0000}, {0x7f800000, 0x7f80}, {0x7f7fffff, 0x7f80}};
  const Shape shape{1, 16, 1, 1};
  for (const auto& [wide, narrow] : bits)
    for (const Layout to : {Layout::row_major, Layout::nchw16c}) {
      Tensor from = Tensor::empty(shape, DType::f32, Device::cpu());
      for (float& value : from.elements<float>()) value = std::bit_cast<float>(wide);
      const Tensor rounded = cpu::in_layout({}, from, to, DType::bf16);
      EXPECT_EQ(rounded.dtype(), DType::bf16);
      EXPECT_EQ(rounded.layout(), to);
      for (const BFloat16 value : rounded.elements<BFloat16>()) EXPECT_EQ(value.bits, narrow);
    }
}

TEST(Reorder, KeepsServingWhenShapesNeverRepeat) {
  for (std::int64_t size = 1; size <= 80; ++size) {
    const Shape shape{1, 3, size, 2};
    const auto values = oracle::random_values(shape.element_count(), 6);
    EXPECT_EQ(oracle::to_values(cpu::in_layout({}, oracle::to_tensor(shape, values), Layout::nhwc)),
              values);
  }
}

TEST(Reorder, SharesTheDataWhenTheLayoutIsAlreadyRight) {
  const Tensor x = Tensor::zeros({1, 16, 2, 2}, DType::f32, Layout::nhwc);
  EXPECT_EQ(cpu::in_layout({}, x, Layout::nhwc).raw(), x.raw());
}

TEST(Reorder, NamesBothShapesWhenTheyDiffer) {
  const Tensor from = Tensor::zeros({1, 16, 2, 2});
  const auto message = [&](Tensor to) -> std::string {
    try {
      cpu::reorder({}, from, to);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message(Tensor::zeros({1, 16, 2, 3})),
              HasSubstr("[1, 16, 2, 2] into f32 [1, 16, 2, 3]"));
  EXPECT_THAT(message(Tensor::zeros({1, 16, 2, 2}, DType::f64)), HasSubstr("into f64"));
}

TEST(Reorder, CopiesNothingForAnEmptyBatch) {
  Tensor to = Tensor::zeros({0, 16, 2, 2}, DType::f32, Layout::nhwc);
  cpu::reorder({}, Tensor::zeros({0, 16, 2, 2}), to);
  EXPECT_EQ(to.element_count(), 0);
}

}  // namespace
}  // namespace troupe
