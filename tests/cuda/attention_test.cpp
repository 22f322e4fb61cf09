#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "emulated.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"
#include "runtime/error.h"

namespace troupe::testing {
namespace {

struct Case {
  Shape q, k, v;
  AttentionOptions options = {};
  Tensor mask = {};
};

void compare(const EmulatedStream& stream, const Case& c, DType dtype) {
  SCOPED_TRACE(to_string(c.q) + " " + to_string(c.k) + " " + std::string(name_of(dtype)));
  const auto on = [&](const Tensor& t) {
    return t.defined() ? on_device(stream.get(), t, dtype) : Tensor();
  };
  const KernelTable& cuda = kernels(stream.get().device, dtype);
  const double bound = dtype == DType::f64 ? 1e-12 : 2e-5;
  const Tensor q = random_tensor(c.q, 1), k = random_tensor(c.k, 2), v = random_tensor(c.v, 3);
  const AttentionOutput wanted = reference::attention({}, q, k, v, c.mask, c.options);
  const AttentionOutput found =
      cuda.attention(stream.get(), on(q), on(k), on(v), on(c.mask), c.options);
  expect_near(stream, found.y, wanted.y, bound);
  const Tensor grad = random_tensor(wanted.y.shape(), 4);
  const AttentionGradients slopes =
      reference::attention_backward({}, grad, q, k, v, c.mask, wanted, c.options);
  const AttentionGradients found_slopes = cuda.attention_backward(
      stream.get(), on(grad), on(q), on(k), on(v), on(c.mask), found, c.options);
  expect_near(stream, found_slopes.q, slopes.q, bound);
  expect_near(stream, found_slopes.k, slopes.k, bound);
  expect_near(stream, found_slopes.v, slopes.v, bound);
}

void compare(const EmulatedStream& stream, const Case& c) {
  for (const DType dtype : {DType::f32, DType::f64}) compare(stream, c, dtype);
}

// One matrix is split into parts of 64 tokens, several fit into a part.
TEST(CudaAttention, TakesParts) {
  EmulatedStream stream;
  compare(stream, {{130, 5}, {150, 5}, {150, 3}}, DType::f32);
  compare(stream, {{130, 5}, {150, 5}, {150, 3}, {.causal = true}}, DType::f64);
  compare(stream, {{150, 3}, {130, 3}, {130, 4}, {.causal = true, .scale = 0.3}}, DType::f32);
  compare(stream, {{120, 3}, {100, 3}, {100, 2}, {.causal = true}}, DType::f32);
  compare(stream, {{130, 3}, {40, 3}, {40, 2}, {.causal = true}}, DType::f32);
  compare(stream, {{3, 70, 4}, {3, 66, 4}, {3, 66, 4}, {.causal = true}}, DType::f32);
}

TEST(CudaAttention, TakesWideRows) {
  EmulatedStream stream;
  compare(stream, {{2, 70}, {3, 70}, {3, 66}}, DType::f32);
  compare(stream, {{2, 3}, {1030, 3}, {1030, 2}}, DType::f32);
}

TEST(CudaAttention, BroadcastsMasks) {
  EmulatedStream stream;
  const Shape heads{2, 3, 4, 5}, keys{2, 3, 6, 5};
  for (const Shape& mask :
       {Shape{}, Shape{6}, Shape{4, 1}, Shape{3, 1, 6}, Shape{2, 1, 4, 6}, Shape{2, 3, 4, 6}})
    compare(stream, {heads, keys, keys, {.causal = mask.rank() == 2}, random_tensor(mask, 5)});
}

TEST(CudaAttention, GivesZeroesToTokensThatSeeNoKey) {
  EmulatedStream stream;
  Tensor mask = random_tensor({4, 5}, 6);
  for (std::int64_t key = 0; key < 5; ++key) mask.data<double>()[10 + key] = -INFINITY;
  mask.data<double>()[1] = -INFINITY;
  mask.data<double>()[0] = 2;
  compare(stream, {{2, 4, 3}, {2, 5, 3}, {2, 5, 3}, {}, mask});
  mask.data<double>()[0] = -INFINITY;  // the only key of the first token
  compare(stream, {{2, 4, 3}, {2, 5, 3}, {2, 5, 3}, {.causal = true}, mask});
}

TEST(CudaAttention, KeepsNaNsInTheirRows) {
  EmulatedStream stream;
  Tensor mask = random_tensor({4, 5}, 6);
  mask.data<double>()[7] = NAN;
  compare(stream, {{2, 4, 3}, {2, 5, 3}, {2, 5, 3}, {}, mask});
  for (const std::int64_t key : {5, 6, 8, 9}) mask.data<double>()[key] = -INFINITY;
  compare(stream, {{2, 4, 3}, {2, 5, 3}, {2, 5, 3}, {}, mask});
}

/// A row that is masked as a whole gives each of its keys the same share.
TEST(CudaAttention, SharesOutARowThatAFiniteNumberMasksAsAWhole) {
  EmulatedStream stream;
  for (const double hidden : {-1e38, double{std::numeric_limits<float>::lowest()}}) {
    Tensor mask = random_tensor({4, 5}, 6);
    for (std::int64_t key = 0; key < 5; ++key) mask.data<double>()[10 + key] = hidden;
    compare(stream, {{2, 4, 3}, {2, 5, 3}, {2, 5, 3}, {}, mask});
  }
}

TEST(CudaAttention, TakesEmptyTensors) {
  EmulatedStream stream;
  compare(stream, {{2, 3, 4}, {2, 0, 4}, {2, 0, 5}});
  compare(stream, {{2, 0, 4}, {2, 3, 4}, {2, 3, 5}});
  compare(stream, {{0, 3, 4}, {0, 3, 4}, {0, 3, 5}});
  compare(stream, {{2, 3, 0}, {2, 3, 0}, {2, 3, 5}});
  compare(stream, {{2, 3, 4}, {2, 3, 4}, {2, 3, 0}});
}

TEST(CudaAttention, RefusesAMaskOfMoreAxes) {
  EmulatedStream stream;
  const auto on = [&](const Shape& shape) {
    return Tensor::empty(shape, DType::f32, stream.get().device);
  };
  EXPECT_THROW(kernels(stream.get().device, DType::f32)
                   .attention(stream.get(), on({2, 3}), on({2, 3}), on({2, 3}), on({1, 2, 2}), {}),
               Error);
}

}  // namespace
}  // namespace troupe::testing
