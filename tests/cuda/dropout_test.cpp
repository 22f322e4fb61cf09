#include <gtest/gtest.h>

#include <cmath>

#include "emulated.h"
#include "ops/cpu/kernels.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"
#include "ops/reference/reorder.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"

namespace troupe::testing {
namespace {

constexpr RandomKey key{.seed = 0x123456789abcdef, .step = 7, .micro_batch = 3, .operation = 99};

TEST(CudaDropout, HasTheBitsOfTheCPU) {
  EmulatedStream stream;
  for (const Shape& shape : {Shape{1}, Shape{4099}, Shape{5, 3, 7, 3}, Shape{2, 8, 4, 4}})
    for (const float probability : {0.0f, 0.1f, 0.5f, 0.999f}) {
      const Tensor x = cast(random_tensor(shape, 1), DType::f32);
      const Tensor expected = cpu::dropout({}, x, probability, key);
      const Tensor found = on_cpu(
          stream.get(), kernels(stream.get().device, DType::f32)
                            .dropout(stream.get(), on_device(stream.get(), x), probability, key));
      for (std::int64_t e = 0; e < x.element_count(); ++e)
        ASSERT_EQ(found.data<float>()[e], expected.data<float>()[e]) << e;
    }
}

// As many as some counters of 16 bits would have blocks of random numbers for.
TEST(CudaDropout, DrawsOtherNumbersForEachOfManyElements) {
  EmulatedStream stream;
  const Tensor x = random_tensor({300'000}, 1);
  expect_near(stream,
              kernels(stream.get().device, DType::f64)
                  .dropout(stream.get(), on_device(stream.get(), x), 0.5f, key),
              reference::dropout({}, x, 0.5f, key), 0.0);
}

// Planes whose channels begin within a block of random numbers, among them.
TEST(CudaDropout, CountsElementsInLogicalOrderWhateverTheLayout) {
  EmulatedStream stream;
  for (const Shape& shape : {Shape{2, 5, 3, 3}, Shape{3, 1, 2, 5}, Shape{2, 33, 4, 4},
                             Shape{1, 7, 1, 1}, Shape{0, 3, 2, 2}})
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(to_string(shape));
      const Tensor x = reference::in_layout(random_tensor(shape, 1), Layout::nhwc);
      expect_near(stream,
                  kernels(stream.get().device, dtype)
                      .dropout(stream.get(), on_device(stream.get(), x, dtype), 0.3f, key),
                  reference::dropout({}, x, 0.3f, key), dtype == DType::f64 ? 0.0 : 2e-7);
    }
}

TEST(CudaDropout, TakesViewsThatBeginAtAnyElement) {
  EmulatedStream stream;
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = random_tensor({303}, 1);
    expect_near(
        stream,
        kernels(stream.get().device, dtype)
            .dropout(stream.get(), on_device(stream.get(), x, dtype).narrow(1, 301), 0.3f, key),
        reference::dropout({}, x.narrow(1, 301), 0.3f, key), dtype == DType::f64 ? 0.0 : 2e-7);
  }
}

TEST(CudaDropout, RefusesOtherProbabilities) {
  EmulatedStream stream;
  const Tensor x = zeros(stream.get(), {3}, DType::f32);
  for (const float probability : {-0.1f, 1.0f, std::nanf("")})
    EXPECT_THROW(
        kernels(stream.get().device, DType::f32).dropout(stream.get(), x, probability, key), Error);
}

}  // namespace
}  // namespace troupe::testing
