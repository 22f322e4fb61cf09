#include <gtest/gtest.h>

#include <cmath>

#include "emulated.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"
#include "ops/reference/reorder.h"
#include "runtime/error.h"

namespace troupe::testing {
namespace {

using reference::in_layout;

/// Calls f(layout, on, kernels, bound), where `on` brings a tensor to the device.
template <class F>
void for_forms(const EmulatedStream& stream, F&& f) {
  for (const Layout layout : {Layout::row_major, Layout::nhwc})
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(std::string(name_of(layout)) + " " + std::string(name_of(dtype)));
      f(
          layout, [&](const Tensor& t) { return on_device(stream.get(), t, dtype); },
          kernels(stream.get().device, dtype), dtype == DType::f64 ? 1e-12 : 2e-6);
    }
}

void compare_sliding(const EmulatedStream& stream, const Tensor& given,
                     const PoolOptions& options) {
  SCOPED_TRACE(to_string(given.shape()));
  for_forms(stream, [&](Layout layout, auto on, const KernelTable& cuda, double bound) {
    const Tensor x = in_layout(given, layout);
    const Tensor y = reference::max_pool({}, x, options);
    const Tensor grad = in_layout(random_tensor(y.shape(), 2), layout);
    expect_near(stream, cuda.max_pool(stream.get(), on(x), options), y, 1e-7);
    expect_near(stream, cuda.max_pool_backward(stream.get(), on(grad), on(x), options),
                reference::max_pool_backward({}, grad, x, options), bound);
    expect_near(stream, cuda.average_pool(stream.get(), on(x), options),
                reference::average_pool({}, x, options), bound);
    expect_near(stream, cuda.average_pool_backward(stream.get(), on(grad), x.shape(), options),
                reference::average_pool_backward({}, grad, x.shape(), options), bound);
  });
}

TEST(CudaPooling, SlidesWindowsOfAnyStrideAndPadding) {
  EmulatedStream stream;
  compare_sliding(stream, random_tensor({2, 8, 6, 8}, 1), {});
  compare_sliding(stream, random_tensor({2, 3, 7, 9}, 1), {});
  compare_sliding(stream, random_tensor({2, 3, 6, 8}, 1), {3, 2, 3, 2, 0, 0});
  compare_sliding(stream, random_tensor({2, 3, 7, 9}, 1), {3, 3, 2, 2, 1, 1});
  compare_sliding(stream, random_tensor({1, 4, 9, 8}, 1), {5, 3, 1, 3, 2, 0});
  compare_sliding(stream, random_tensor({2, 2, 9, 9}, 1), {2, 2, 4, 3, 0, 1});
  compare_sliding(stream, random_tensor({2, 5, 8, 7}, 1), {8, 7, 1, 1, 0, 0});
  compare_sliding(stream, random_tensor({2, 3, 7, 9}, 1),
                  {3, 3, std::int64_t{1} << 32, std::int64_t{3} << 40, 1, 0});
}

TEST(CudaPooling, TakesTheFirstLargestAndNaNs) {
  EmulatedStream stream;
  Tensor x = random_tensor({2, 4, 6, 6}, 3);
  for (double& value : x.elements<double>()) value = std::round(2 * value);  // many are equal
  for (const std::int64_t e : {7, 8, 40, 41, 100}) x.data<double>()[e] = NAN;
  x.data<double>()[50] = -INFINITY;
  for_forms(stream, [&](Layout layout, auto on, const KernelTable& cuda, double bound) {
    for (const PoolOptions& options : {PoolOptions{}, PoolOptions{3, 3, 1, 2, 1, 1}}) {
      const Tensor placed = in_layout(x, layout);
      const Tensor y = reference::max_pool({}, placed, options);
      const Tensor grad = in_layout(random_tensor(y.shape(), 4), layout);
      expect_near(stream, cuda.max_pool(stream.get(), on(placed), options), y, bound);
      expect_near(stream, cuda.max_pool_backward(stream.get(), on(grad), on(placed), options),
                  reference::max_pool_backward({}, grad, placed, options), bound);
    }
  });
}

TEST(CudaPooling, SplitsImagesIntoParts) {
  EmulatedStream stream;
  const struct {
    Shape shape;
    std::int64_t out_h, out_w;
  } cases[] = {
      {{2, 3, 7, 5}, 3, 2}, {{1, 4, 2, 3}, 5, 4}, {{3, 8, 6, 6}, 1, 1}, {{1, 2, 13, 11}, 5, 11}};
  for (const auto& [shape, out_h, out_w] : cases)
    for_forms(stream, [&](Layout layout, auto on, const KernelTable& cuda, double bound) {
      const Tensor x = in_layout(random_tensor(shape, 5), layout);
      const Tensor y = reference::adaptive_average_pool({}, x, out_h, out_w);
      const Tensor grad = in_layout(random_tensor(y.shape(), 6), layout);
      expect_near(stream, cuda.adaptive_average_pool(stream.get(), on(x), out_h, out_w), y, bound);
      expect_near(stream, cuda.adaptive_average_pool_backward(stream.get(), on(grad), x.shape()),
                  reference::adaptive_average_pool_backward({}, grad, x.shape()), bound);
    });
}

TEST(CudaPooling, RefusesWindowsThatDoNotFit) {
  EmulatedStream stream;
  const KernelTable& cuda = kernels(stream.get().device, DType::f32);
  const Tensor x = Tensor::empty({1, 2, 3, 3}, DType::f32, stream.get().device);
  EXPECT_THROW(cuda.max_pool(stream.get(), x, {4, 4, 1, 1, 0, 0}), Error);
  EXPECT_THROW(cuda.average_pool(stream.get(), x, {2, 2, 1, 1, 2, 0}), Error);
  EXPECT_THROW(cuda.adaptive_average_pool(stream.get(), x, 0, 1), Error);
  EXPECT_THROW(cuda.average_pool_backward(stream.get(), x, {1, 2, 9, 9}, {}), Error);
  const Tensor blocked =
      Tensor::empty({1, 16, 3, 3}, DType::f32, stream.get().device, Layout::nchw16c);
  EXPECT_THROW(cuda.max_pool(stream.get(), blocked, {}), Error);
}

}  // namespace
}  // namespace troupe::testing
