#include <gtest/gtest.h>

#include "emulated.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"

namespace troupe::testing {
namespace {

class CudaLookUp : public ::testing::TestWithParam<Shape> {};

TEST_P(CudaLookUp, IsTheReferencesInEachLayoutAndType) {
  EmulatedStream stream;
  const Shape& shape = GetParam();
  // Of one image more, so that the others may begin at any byte.
  const Tensor all = random_bytes(shape.with_outer(shape[0] + 1));
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const Tensor values = cast(random_tensor({shape[1], 256}, 3), dtype);
    const Tensor there = on_device(stream.get(), all), table = on_device(stream.get(), values);
    for (const Layout layout : {Layout::row_major, Layout::nhwc})
      for (const std::int64_t first : {0, 1}) {
        SCOPED_TRACE(::testing::Message()
                     << name_of(dtype) << ' ' << name_of(layout) << ' ' << first);
        const Tensor expected = reference::look_up({}, all.narrow(first, shape[0]), values, layout);
        const Tensor y = kernels(stream.get().device, DType::f32)
                             .look_up(stream.get(), there.narrow(first, shape[0]), table, layout);
        EXPECT_EQ(y.dtype(), dtype);
        expect_near(stream, y, expected, 0.0);
      }
  }
}

// Planes in packs of all types, of some, and of none; more channels than a block keeps the
// values of; nothing.
INSTANTIATE_TEST_SUITE_P(All, CudaLookUp,
                         ::testing::Values(Shape{2, 3, 8, 12}, Shape{3, 1, 28, 28},
                                           Shape{2, 3, 2, 5}, Shape{2, 4, 3, 5}, Shape{2, 3, 7, 7},
                                           Shape{3, 5, 6, 4}, Shape{1, 1, 1, 1}, Shape{2, 7, 1, 1},
                                           Shape{0, 3, 4, 4}));

TEST(CudaLookUpArguments, RefusesValuesOfOtherChannels) {
  EmulatedStream stream;
  const Tensor x = on_device(stream.get(), random_bytes({1, 3, 2, 2}));
  const Tensor values = on_device(stream.get(), Tensor::zeros({2, 256}));
  EXPECT_THROW(
      kernels(stream.get().device, DType::f32).look_up(stream.get(), x, values, Layout::row_major),
      Error);
}

}  // namespace
}  // namespace troupe::testing
