#include <gtest/gtest.h>

#include "emulated.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"

namespace troupe::testing {
namespace {

struct Copy {
  const char* what;
  Shape space;
  std::int64_t from_size, to_size;
  ElementPlaces from, to;
};

const std::vector<Copy>& copies() {
  static const std::vector<Copy> all{
      {"one element", {}, 1, 1, {0, {}}, {0, {}}},
      {"nothing", {0, 3}, 3, 3, {0, {3, 1}}, {0, {3, 1}}},
      {"one stretch", {7, 99}, 693, 693, {0, {99, 1}}, {0, {99, 1}}},
      {"rows in packs", {9, 16}, 9 * 24, 9 * 16, {4, {24, 1}}, {0, {16, 1}}},
      {"rows that begin between packs", {9, 16}, 9 * 24, 9 * 16, {5, {24, 1}}, {0, {16, 1}}},
      {"rows at odd distances", {5, 16}, 5 * 17, 5 * 18, {0, {17, 1}}, {2, {18, 1}}},
      {"every second element", {4, 33}, 4 * 66, 4 * 33, {1, {66, 2}}, {0, {33, 1}}},
      {"into every second element", {4, 33}, 4 * 33, 4 * 66, {0, {33, 1}}, {1, {66, 2}}},
      {"a transposition", {40, 70}, 2800, 2800, {0, {1, 40}}, {0, {70, 1}}},
      {"transposed planes", {3, 9, 35}, 945, 1000, {0, {315, 1, 9}}, {7, {315, 35, 1}}},
      {"a narrow transposition", {300, 3}, 900, 900, {0, {1, 300}}, {0, {3, 1}}},
      {"five axes", {2, 3, 4, 5, 6}, 720, 720, {0, {1, 2, 6, 24, 120}}, {0, {360, 120, 30, 6, 1}}},
      {"an element for all", {6, 50}, 6, 300, {0, {1, 0}}, {0, {50, 1}}},
  };
  return all;
}

TEST(CudaMovement, CopiesElementsBetweenAnyPlaces) {
  EmulatedStream stream;
  for (const Copy& copy : copies())
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(copy.what);
      const Tensor from = random_tensor({copy.from_size}, 1);
      Tensor expected = Tensor::zeros({copy.to_size}, DType::f64);
      reference::copy_elements({}, copy.space, from, copy.from, expected, copy.to);
      Tensor to = zeros(stream.get(), {copy.to_size}, dtype);
      kernels(stream.get().device, dtype)
          .copy_elements(stream.get(), copy.space, on_device(stream.get(), from, dtype), copy.from,
                         to, copy.to);
      expect_near(stream, to, expected, 1e-7);
    }
}

TEST(CudaMovement, CopiesWholeNumbers) {
  EmulatedStream stream;
  Tensor from = Tensor::empty({12, 9}, DType::i64, Device::cpu());
  for (std::int64_t i = 0; i < 108; ++i) from.data<std::int64_t>()[i] = (std::int64_t{1} << 60) + i;
  Tensor to = Tensor::empty({9, 12}, DType::i64, stream.get().device);
  kernels(stream.get().device, DType::f32)
      .copy_elements(stream.get(), {9, 12}, on_device(stream.get(), from), {0, {1, 9}}, to,
                     {0, {12, 1}});
  const Tensor found = on_cpu(stream.get(), to);
  for (std::int64_t i = 0; i < 9; ++i)
    for (std::int64_t j = 0; j < 12; ++j)
      EXPECT_EQ(found.data<std::int64_t>()[i * 12 + j], (std::int64_t{1} << 60) + j * 9 + i);
}

TEST(CudaMovement, ReordersImages) {
  EmulatedStream stream;
  for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{3, 40, 6, 6}, Shape{1, 1, 8, 4},
                             Shape{2, 33, 1, 1}, Shape{0, 3, 4, 4}, Shape{1, 16, 9, 9},
                             Shape{1, 70, 4, 4}, Shape{1, 360, 2, 1}, Shape{1, 2, 19, 19}})
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(to_string(shape));
      const Tensor x = random_tensor(shape, 1);
      Tensor expected = Tensor::empty(shape, DType::f64, Device::cpu(), Layout::nhwc);
      reference::reorder({}, x, expected);
      const KernelTable& cuda = kernels(stream.get().device, dtype);
      Tensor y = Tensor::empty(shape, dtype, stream.get().device, Layout::nhwc);
      Tensor same = Tensor::empty(shape, dtype, stream.get().device, Layout::nhwc);
      Tensor back = Tensor::empty(shape, dtype, stream.get().device);
      cuda.reorder(stream.get(), on_device(stream.get(), x, dtype), y);
      cuda.reorder(stream.get(), y, same);
      cuda.reorder(stream.get(), same, back);
      expect_near(stream, y, expected, 1e-7);
      expect_near(stream, back, x, 1e-7);
      if (dtype == DType::f64) continue;
      Tensor narrow = Tensor::empty(shape, DType::bf16, stream.get().device, Layout::nhwc);
      cuda.reorder(stream.get(), back, narrow);
      cuda.reorder(stream.get(), narrow, back);
      expect_near(stream, narrow, expected, 1.0 / 256);
      expect_near(stream, back, x, 1.0 / 256);
    }
}

TEST(CudaMovement, RefusesBlocksOfChannels) {
  EmulatedStream stream;
  const Tensor x = zeros(stream.get(), {1, 16, 2, 2}, DType::f32);
  Tensor y = Tensor::empty(x.shape(), DType::f32, stream.get().device, Layout::nchw16c);
  EXPECT_THROW(kernels(stream.get().device, DType::f32).reorder(stream.get(), x, y), Error);
}

}  // namespace
}  // namespace troupe::testing
