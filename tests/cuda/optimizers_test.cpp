#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "emulated.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"

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
      {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
      {.lr = 0.1,
       .momentum = 0.9,
       .weight_decay = 0.01,
       .scaling = {.limit = 0.25, .factor = -0.3}}};
  for (const MomentumStep& factors : steps)
    for (const Tensor& m : {Tensor(), random_tensor({count}, 3)})
      for (const DType dtype : {DType::f32, DType::f64})
        for (const std::int64_t shift : {0, 1}) {
          const bool keeps = factors.momentum != 0.0;
          Tensor new_w = Tensor::empty({count}, DType::f64, Device::cpu()), new_m = new_w.clone();
          reference::momentum_step({}, {{factors, w, g, m, new_w, new_m}});
          Tensor found = shifted(stream, w, dtype, shift);
          Tensor kept = shifted(stream, m.defined() ? m : g, dtype, 0), none;
          kernels(stream.get().device, dtype)
              .momentum_step(stream.get(),
                             {{factors, found, shifted(stream, g, dtype, shift),
                               m.defined() ? kept : none, found, keeps ? kept : none}});
          expect_near(stream, found, new_w, bound_of(dtype));
          if (keeps) {
            expect_near(stream, kept, new_m, bound_of(dtype));
          }
        }
}

TEST(CudaOptimizers, AdamStepsAreTheReferences) {
  EmulatedStream stream;
  const Tensor w = random_tensor({count}, 1), g = random_tensor({count}, 2);
  const Tensor m = random_tensor({count}, 3), v = absolute(random_tensor({count}, 4));
  const std::vector<AdamStep> steps{
      {.lr = 0.01, .correction1 = 0.1, .correction2 = 0.001},
      {.lr = 0.01, .correction1 = 0.5, .correction2 = 0.2, .weight_decay = 0.1},
      {.lr = 0.01, .beta1 = 0.3, .correction1 = 0.7, .correction2 = 0.1},  // lerp from the far end
      {.lr = 0.01, .weight_decay = 0.1, .decoupled_decay = true},
      {.lr = 0.01, .weight_decay = 0.1, .scaling = {.limit = 0.25, .factor = -0.3}}};
  for (const AdamStep& factors : steps)
    for (const bool first : {true, false})
      for (const DType dtype : {DType::f32, DType::f64})
        for (const std::int64_t shift : {0, 1}) {
          Tensor new_w = Tensor::empty({count}, DType::f64, Device::cpu());
          Tensor new_m = new_w.clone(), new_v = new_w.clone(), none;
          reference::adam_step(
              {}, {{factors, w, g, first ? none : m, first ? none : v, new_w, new_m, new_v}});
          Tensor found = shifted(stream, w, dtype, shift);
          Tensor average = shifted(stream, m, dtype, shift), squares = shifted(stream, v, dtype, 0);
          kernels(stream.get().device, dtype)
              .adam_step(stream.get(),
                         {{factors, found, shifted(stream, g, dtype, 0), first ? none : average,
                           first ? none : squares, found, average, squares}});
          expect_near(stream, found, new_w, 5 * bound_of(dtype));
          expect_near(stream, average, new_m, bound_of(dtype));
          expect_near(stream, squares, new_v, bound_of(dtype));
        }
}

TEST(CudaOptimizers, ClampInfiniteGradientsAndKeepNaN) {
  EmulatedStream stream;
  Tensor gradient = random_tensor({count}, 2);
  const double strange[] = {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e30, -1e30};
  std::ranges::copy(strange, gradient.elements<double>().begin());
  const Tensor w = random_tensor({count}, 1), v = absolute(random_tensor({count}, 4));
  const GradientScaling scaling{.limit = 0.25, .factor = 0.5};
  for (const DType dtype : {DType::f32, DType::f64}) {
    const KernelTable& table = kernels(stream.get().device, dtype);
    const auto there = [&](const Tensor& tensor) { return shifted(stream, tensor, dtype, 0); };
    Tensor sgd = there(w), adam = there(w), average = there(v), squares = there(v);
    table.momentum_step(stream.get(),
                        {{{.lr = 1, .scaling = scaling}, sgd, there(gradient), {}, sgd, {}}});
    table.adam_step(
        stream.get(),
        {{{.lr = 1, .scaling = scaling}, adam, there(gradient), {}, {}, adam, average, squares}});
    const Tensor stepped = cast(on_cpu(stream.get(), sgd), DType::f64);
    const Tensor averaged = cast(on_cpu(stream.get(), average), DType::f64);
    EXPECT_TRUE(std::isnan(stepped.elements<double>()[0]));
    EXPECT_TRUE(std::isnan(averaged.elements<double>()[0]));
    for (std::size_t i = 1; i < std::size(strange); ++i) {
      const double clamped = std::copysign(0.125, strange[i]);
      EXPECT_NEAR(stepped.elements<double>()[i], w.elements<double>()[i] - clamped, 1e-6);
      EXPECT_NEAR(averaged.elements<double>()[i], 0.1 * clamped, 1e-6);
    }
  }
}

/// Parts of a flat tensor, of any lengths, an empty one among them.
std::vector<std::pair<std::int64_t, std::int64_t>> parts_of(std::int64_t many) {
  std::vector<std::pair<std::int64_t, std::int64_t>> parts;
  for (std::int64_t p = 0, begin = 0; p < many; ++p) {
    const std::int64_t length = p == 1 ? 0 : p % 3 == 0 ? 2053 : p % 3 == 1 ? 16 : 5;
    parts.emplace_back(begin, length);
    begin += (length + 15) / 16 * 16;
  }
  return parts;
}

TEST(CudaOptimizers, DoManyUpdatesAtOnceWithTheBitsOfEach) {
  EmulatedStream stream;
  const auto parts = parts_of(45);  // Adam's arguments take 33 in f32
  const std::int64_t all = parts.back().first + 2053;
  for (const DType dtype : {DType::f32, DType::f64}) {
    const KernelTable& table = kernels(stream.get().device, dtype);
    const auto given = [&](unsigned seed) {
      Tensor there = zeros(stream.get(), {all}, dtype);
      table.copy(stream.get(), absolute(random_tensor({all}, seed)), there);
      return there;
    };
    const Tensor w = given(1), g = given(2), m = given(3), v = given(4);
    struct Made {
      Tensor weights, first, second;
    };
    const auto made = [&](bool at_once, bool adam) {
      const auto empty = [&] { return zeros(stream.get(), {all}, dtype); };
      Made to{empty(), empty(), empty()};
      std::vector<MomentumUpdate> of_momentum;
      std::vector<AdamUpdate> of_adam;
      for (const auto& [begin, length] : parts) {
        const auto part = [&, begin = begin, length = length](const Tensor& tensor) {
          return tensor.narrow(begin, length);
        };
        const double lr = 0.1 / static_cast<double>(begin + 1);
        const double momentum = of_momentum.size() % 4 == 3 ? 0 : 0.9;
        of_momentum.push_back({{.lr = lr, .momentum = momentum},
                               part(w),
                               part(g),
                               part(m),
                               part(to.weights),
                               part(to.first)});
        of_adam.push_back({{.lr = lr, .correction2 = 0.1},
                           part(w),
                           part(g),
                           part(m),
                           part(v),
                           part(to.weights),
                           part(to.first),
                           part(to.second)});
      }
      const auto give = [&](auto kernel, const auto& updates) {
        if (at_once) return kernel(stream.get(), updates);
        for (const auto& update : updates) kernel(stream.get(), {update});
      };
      adam ? give(table.adam_step, of_adam) : give(table.momentum_step, of_momentum);
      return to;
    };
    for (const bool adam : {false, true}) {
      const Made once = made(true, adam), each = made(false, adam);
      expect_near(stream, once.weights, on_cpu(stream.get(), each.weights), 0);
      expect_near(stream, once.first, on_cpu(stream.get(), each.first), 0);
      expect_near(stream, once.second, on_cpu(stream.get(), each.second), 0);
    }
  }
}

// Arguments of a launch are limited; nor do updates that are not aligned share one with others.
TEST(CudaOptimizers, DoMoreUpdatesThanALaunchTakes) {
  EmulatedStream stream;
  const auto parts = parts_of(200);
  const std::int64_t all = parts.back().first + 2053;
  const Tensor w = zeros(stream.get(), {all}, DType::f32),
               g = zeros(stream.get(), {all}, DType::f32);
  const KernelTable& table = kernels(stream.get().device, DType::f32);
  Tensor ones = g;
  table.fill(stream.get(), 1, ones);
  std::vector<MomentumUpdate> updates;
  for (const auto& [begin, length] : parts) {
    const std::int64_t shift = begin % 5 == 0 && length > 0 ? 1 : 0;
    const auto part = [&](const Tensor& tensor) {
      return tensor.narrow(begin + shift, length - shift);
    };
    updates.push_back({{.lr = 2}, part(w), part(g), {}, part(w), {}});
    if (shift > 0)
      updates.push_back(
          {{.lr = 2}, w.narrow(begin, 1), g.narrow(begin, 1), {}, w.narrow(begin, 1), {}});
  }
  table.momentum_step(stream.get(), updates);
  const Tensor found = on_cpu(stream.get(), w);
  for (const auto& [begin, length] : parts)
    for (std::int64_t e = begin; e < begin + length; ++e)
      ASSERT_EQ(found.data<float>()[e], -2) << e;
}

TEST(CudaOptimizers, RefuseUpdatesOfSeveralTypes) {
  EmulatedStream stream;
  const auto update = [&](DType dtype) {
    const Tensor w = zeros(stream.get(), {4}, dtype);
    return MomentumUpdate{{.lr = 0.1}, w, w, {}, w, {}};
  };
  EXPECT_THROW(kernels(stream.get().device, DType::f32)
                   .momentum_step(stream.get(), {update(DType::f32), update(DType::f64)}),
               Error);
}

TEST(CudaOptimizers, RefuseArraysOfAnotherLength) {
  EmulatedStream stream;
  const Tensor w = zeros(stream.get(), {4}, DType::f32), g = zeros(stream.get(), {3}, DType::f32);
  EXPECT_THROW(kernels(stream.get().device, DType::f32)
                   .momentum_step(stream.get(), {{{.lr = 0.1}, w, g, {}, w, {}}}),
               Error);
}

}  // namespace
}  // namespace troupe::testing
