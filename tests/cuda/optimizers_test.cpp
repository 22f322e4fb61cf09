#include <gtest/gtest.h>

#include <cmath>

#include "emulated.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"
#include "runtime/error.h"

namespace troupe::testing {
namespace {

constexpr std::int64_t count = 2053;  // whole packs, a rest, and several blocks

double bound_of(DType dtype) { return dtype == DType::f64 ? 0.0 : 4e-7; }

Tensor absolute(const Tensor& x) {
  Tensor y = x.clone();
  for (double& value : y.elements<double>()) value = std::abs(value);
  return y;
}

/// A copy of the tensor in the stream's memory that begins `shift` elements into a block.
Tensor shifted(const EmulatedStream& stream, const Tensor& tensor, DType dtype,
               std::int64_t shift) {
  if (!tensor.defined()) return {};
  Tensor view = zeros(stream.get(), {count + shift}, dtype).narrow(shift, count);
  kernels(stream.get().device, dtype).copy(stream.get(), tensor, view);
  return view;
}

TEST(CudaOptimizers, MomentumStepsAreTheReferences) {
  EmulatedStream stream;
  const Tensor w = random_tensor({count}, 1), g = random_tensor({count}, 2);
  const std::vector<MomentumStep> steps{
      {.lr = 0.1},
      {.lr = 0.1, .weight_decay = 0.01},
      {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01},
      {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}};
  for (const MomentumStep& factors : steps)
    for (const Tensor& m : {Tensor(), random_tensor({count}, 3)})
      for (const DType dtype : {DType::f32, DType::f64})
        for (const std::int64_t shift : {0, 1}) {
          const bool keeps = factors.momentum != 0.0;
          Tensor new_w = Tensor::empty({count}, DType::f64, Device::cpu()), new_m = new_w.clone();
          reference::momentum_step({}, factors, w, g, m, new_w, new_m);
          Tensor found = shifted(stream, w, dtype, shift);
          Tensor kept = shifted(stream, m.defined() ? m : g, dtype, 0), none;
          kernels(stream.get().device, dtype)
              .momentum_step(stream.get(), factors, found, shifted(stream, g, dtype, shift),
                             m.defined() ? kept : none, found, keeps ? kept : none);
          expect_near(stream, found, new_w, bound_of(dtype));
          if (keeps) {
            expect_near(stream, kept, new_m, bound_of(dtype));
          }
        }
  EXPECT_EQ(stream.violations(), 0);
}

TEST(CudaOptimizers, AdamStepsAreTheReferences) {
  EmulatedStream stream;
  const Tensor w = random_tensor({count}, 1), g = random_tensor({count}, 2);
  const Tensor m = random_tensor({count}, 3), v = absolute(random_tensor({count}, 4));
  const std::vector<AdamStep> steps{
      {.lr = 0.01, .correction1 = 0.1, .correction2 = 0.001},
      {.lr = 0.01, .correction1 = 0.5, .correction2 = 0.2, .weight_decay = 0.1},
      {.lr = 0.01, .beta1 = 0.3, .correction1 = 0.7, .correction2 = 0.1},  // lerp from the far end
      {.lr = 0.01, .weight_decay = 0.1, .decoupled_decay = true}};
  for (const AdamStep& factors : steps)
    for (const bool first : {true, false})
      for (const DType dtype : {DType::f32, DType::f64})
        for (const std::int64_t shift : {0, 1}) {
          Tensor new_w = Tensor::empty({count}, DType::f64, Device::cpu());
          Tensor new_m = new_w.clone(), new_v = new_w.clone(), none;
          reference::adam_step({}, factors, w, g, first ? none : m, first ? none : v, new_w, new_m,
                               new_v);
          Tensor found = shifted(stream, w, dtype, shift);
          Tensor average = shifted(stream, m, dtype, shift), squares = shifted(stream, v, dtype, 0);
          kernels(stream.get().device, dtype)
              .adam_step(stream.get(), factors, found, shifted(stream, g, dtype, 0),
                         first ? none : average, first ? none : squares, found, average, squares);
          expect_near(stream, found, new_w, 5 * bound_of(dtype));
          expect_near(stream, average, new_m, bound_of(dtype));
          expect_near(stream, squares, new_v, bound_of(dtype));
        }
  EXPECT_EQ(stream.violations(), 0);
}

TEST(CudaOptimizers, RefuseArraysOfAnotherLength) {
  EmulatedStream stream;
  const Tensor w = zeros(stream.get(), {4}, DType::f32), g = zeros(stream.get(), {3}, DType::f32);
  Tensor to = w, none;
  EXPECT_THROW(kernels(stream.get().device, DType::f32)
                   .momentum_step(stream.get(), {.lr = 0.1}, w, g, none, to, none),
               Error);
}

}  // namespace
}  // namespace troupe::testing
