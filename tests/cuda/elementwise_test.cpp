#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "emulated.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"

namespace troupe::testing {
namespace {

TEST(CudaElementwise, ComputesWhatTheReferenceComputes) {
  EmulatedStream stream;
  for (const std::int64_t count : {1, 3, 64, 1000}) {
    const Tensor x = random_tensor({count}, 1), grad = random_tensor({count}, 2);
    for (const DType dtype : {DType::f32, DType::f64}) {
      const auto on = [&](const Tensor& t) { return on_device(stream.get(), t, dtype); };
      const KernelTable& cuda = kernels(stream.get().device, dtype);
      const double bound = dtype == DType::f64 ? 0.0 : 1e-6;
      expect_near(stream, cuda.relu(stream.get(), on(x)), reference::relu({}, x), bound);
      expect_near(stream, cuda.relu_backward(stream.get(), on(x), on(grad)),
                  reference::relu_backward({}, x, grad), bound);
      expect_near(stream, cuda.clamp(stream.get(), on(x), 0.25, -0.5),
                  reference::clamp({}, x, 0.25, -0.5), bound);
      expect_near(stream, cuda.clamp_backward(stream.get(), on(x), on(grad), -0.5, 0.25),
                  reference::clamp_backward({}, x, grad, -0.5, 0.25), bound);
    }
  }
}

TEST(CudaElementwise, PassesReluGradientsOfUndefinedNumbers) {
  EmulatedStream stream;
  for (const DType dtype : {DType::f32, DType::f64}) {
    Tensor y = Tensor::empty({4}, DType::f64, Device::cpu()), grad = Tensor::zeros({4}, DType::f64);
    std::ranges::copy(std::array{double{NAN}, -1.0, 0.0, 2.0}, y.data<double>());
    std::ranges::fill(grad.elements<double>(), 3.0);
    Tensor expected = Tensor::empty({4}, DType::f64, Device::cpu());
    std::ranges::copy(std::array{3.0, 0.0, 0.0, 3.0}, expected.data<double>());
    const KernelTable& cuda = kernels(stream.get().device, dtype);
    expect_near(stream,
                cuda.relu_backward(stream.get(), on_device(stream.get(), y, dtype),
                                   on_device(stream.get(), grad, dtype)),
                expected, 0.0);
  }
}

}  // namespace
}  // namespace troupe::testing
