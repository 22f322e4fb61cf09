#include <gtest/gtest.h>

#include <cmath>

#include "emulated.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"
#include "runtime/error.h"

namespace troupe::testing {
namespace {

struct Parameters {
  Tensor weight, bias;
};

void compare(const EmulatedStream& stream, const Tensor& x, std::int64_t features,
             const Parameters& given) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    SCOPED_TRACE(to_string(x.shape()) + " " + std::string(name_of(dtype)));
    const auto on = [&](const Tensor& t) {
      return t.defined() ? on_device(stream.get(), t, dtype) : Tensor();
    };
    const KernelTable& cuda = kernels(stream.get().device, dtype);
    const double bound = dtype == DType::f64 ? 1e-12 : 2e-5;
    const LayerNormOutput wanted =
        reference::layer_norm({}, x, given.weight, given.bias, features, 1e-5);
    const LayerNormOutput found =
        cuda.layer_norm(stream.get(), on(x), on(given.weight), on(given.bias), features, 1e-5);
    expect_near(stream, found.y, wanted.y, bound);
    expect_near(stream, found.mean, wanted.mean, bound);
    expect_near(stream, found.inverse_deviation, wanted.inverse_deviation, bound);
    const Tensor grad = random_tensor(x.shape(), 8);
    const NormGradients slopes =
        reference::layer_norm_backward({}, grad, x, given.weight, wanted, features);
    const NormGradients found_slopes =
        cuda.layer_norm_backward(stream.get(), on(grad), on(x), on(given.weight), found, features);
    expect_near(stream, found_slopes.x, slopes.x, bound);
    expect_near(stream, found_slopes.weight, slopes.weight, 2 * bound);
    expect_near(stream, found_slopes.bias, slopes.bias, 2 * bound);
  }
}

TEST(CudaLayerNorm, TakesRowsOfAWarpAndOfABlock) {
  EmulatedStream stream;
  const auto parameters = [](std::int64_t features) {
    return Parameters{random_tensor({features}, 2), random_tensor({features}, 3)};
  };
  for (const Shape& shape : {Shape{1, 2}, Shape{9, 33}, Shape{600, 4}, Shape{3, 1100}, Shape{0, 5}})
    compare(stream, random_tensor(shape, 1), shape[1], parameters(shape[1]));
  compare(stream, random_tensor({2, 3, 2, 5}, 4), 10, parameters(10));
}

TEST(CudaLayerNorm, NeedsNoWeightAndNoBias) {
  EmulatedStream stream;
  const Tensor x = random_tensor({5, 12}, 5);
  compare(stream, x, 12, {});
  compare(stream, x, 12, {random_tensor({12}, 6), {}});
  compare(stream, x, 12, {{}, random_tensor({12}, 7)});
}

TEST(CudaLayerNorm, KeepsNaNsInTheirRowsAndTakesALargeMean) {
  EmulatedStream stream;
  Tensor x = random_tensor({4, 40}, 9);
  x.data<double>()[41] = NAN;
  compare(stream, x, 40, {});
  Tensor far = random_tensor({4, 64}, 10);
  for (double& value : far.elements<double>()) value = std::round(value * 1024) / 1024 + 512;
  const KernelTable& cuda = kernels(stream.get().device, DType::f32);
  const LayerNormOutput found =
      cuda.layer_norm(stream.get(), on_device(stream.get(), far, DType::f32), {}, {}, 64, 1e-5);
  expect_near(stream, found.y, reference::layer_norm({}, far, {}, {}, 64, 1e-5).y, 1e-3);
}

TEST(CudaLayerNorm, RefusesRowsThatDoNotFit) {
  EmulatedStream stream;
  const KernelTable& cuda = kernels(stream.get().device, DType::f32);
  const Tensor x = Tensor::empty({5, 4}, DType::f32, stream.get().device);
  EXPECT_THROW(cuda.layer_norm(stream.get(), x, {}, {}, 3, 1e-5), Error);
}

}  // namespace
}  // namespace troupe::testing
