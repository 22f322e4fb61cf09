#include <gtest/gtest.h>

#include <cmath>

#include "emulated.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"
#include "runtime/tensor/cast.h"

namespace troupe::testing {
namespace {

constexpr ActivationFunction functions[] = {
    ActivationFunction::sigmoid,  ActivationFunction::tanh,      ActivationFunction::silu,
    ActivationFunction::gelu,     ActivationFunction::gelu_tanh, ActivationFunction::hardsigmoid,
    ActivationFunction::hardswish};

/// U(-8, 8) in f32, the edges of pieces, large numbers, infinities and NaN.
Tensor arguments(std::int64_t count) {
  Tensor x = random_tensor({count}, 1);
  for (double& value : x.elements<double>()) value = static_cast<float>(8 * value);
  const double special[] = {0.0, -3, 3, -20, 20, -100, 100, HUGE_VAL, -HUGE_VAL, std::nan("")};
  for (std::size_t i = 0; i < std::size(special) && static_cast<std::int64_t>(i) < count; ++i)
    x.data<double>()[i] = special[i];
  return x;
}

TEST(CudaActivation, ComputesWhatTheReferenceComputes) {
  EmulatedStream stream;
  for (const ActivationFunction function : functions)
    for (const std::int64_t count : {0, 1, 1023}) {
      SCOPED_TRACE(static_cast<int>(function));
      const Tensor x = arguments(count), grad = random_tensor({count}, 2);
      const Tensor y = reference::activate({}, function, x);
      const Tensor& saved = derives_from_output(function) ? y : x;
      for (const DType dtype : {DType::f32, DType::f64}) {
        const auto on = [&](const Tensor& t) { return on_device(stream.get(), t, dtype); };
        const KernelTable& cuda = kernels(stream.get().device, dtype);
        const double bound = dtype == DType::f64 ? 1e-14 : 2e-6;
        expect_near(stream, cuda.activate(stream.get(), function, on(x)), y, bound);
        expect_near(stream, cuda.activate_backward(stream.get(), function, on(saved), on(grad)),
                    reference::activate_backward({}, function, saved, grad), bound);
      }
    }
}

}  // namespace
}  // namespace troupe::testing
