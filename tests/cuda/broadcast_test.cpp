#include <gtest/gtest.h>

#include <cmath>

#include "emulated.h"
#include "ops/on_device.h"
#include "ops/reference/kernels.h"
#include "ops/reference/reorder.h"
#include "runtime/error.h"

namespace troupe::testing {
namespace {

struct Operands {
  Shape a, b;
  Layout a_layout = Layout::row_major, b_layout = Layout::row_major;
};

const std::vector<Operands>& operands() {
  constexpr Layout nhwc = Layout::nhwc;
  static const std::vector<Operands> all{
      {{}, {}},
      {{1021}, {1021}},
      {{3, 344}, {1, 344}},
      {{344, 3}, {344, 1}},
      {{8, 1, 12}, {1, 5, 1}},
      {{2, 3, 8, 4}, {2, 3, 1, 1}},
      {{2, 3, 5, 7}, {1, 3, 1, 1}},
      {{2, 3, 1, 5, 1, 7}, {2, 1, 4, 1, 6, 1}},
      {{0, 4}, {1, 4}},
      {{2, 8, 5, 7}, {2, 8, 5, 7}, nhwc, nhwc},
      {{2, 8, 5, 7}, {1, 8, 1, 1}, nhwc},
      {{2, 5, 4, 4}, {2, 1, 4, 4}, nhwc},
      {{2, 8, 1, 1}, {2, 8, 3, 3}, Layout::row_major, nhwc},
      {{2, 1, 1, 1}, {2, 6, 3, 3}, nhwc, nhwc},
  };
  return all;
}

Tensor image(const Shape& shape, Layout layout, std::uint64_t seed) {
  return reference::in_layout(random_tensor(shape, seed), layout);
}

/// The same elements, of which the first lies between packs.
Tensor unaligned(const EmulatedStream& stream, const Tensor& tensor, DType dtype) {
  Tensor view = zeros(stream.get(), {tensor.element_count() + 1}, dtype)
                    .narrow(1, tensor.element_count())
                    .reshape(tensor.shape());
  kernels(stream.get().device, dtype).copy(stream.get(), tensor, view);
  return view;
}

TEST(CudaBroadcast, ComputesWithOperandsOfAllShapes) {
  EmulatedStream stream;
  for (const Operands& o : operands()) {
    SCOPED_TRACE(to_string(o.a) + " and " + to_string(o.b));
    const Tensor a = image(o.a, o.a_layout, 1), b = image(o.b, o.b_layout, 2);
    for (const auto operation : {ArithmeticOperation::add, ArithmeticOperation::subtract,
                                 ArithmeticOperation::multiply, ArithmeticOperation::divide})
      for (const DType dtype : {DType::f32, DType::f64}) {
        const Tensor y = reference::arithmetic({}, operation, a, b);
        const auto& cuda = kernels(stream.get().device, dtype);
        const Tensor left = on_device(stream.get(), a, dtype);
        const double bound = dtype == DType::f64 ? 0.0 : 5e-7;
        expect_near(
            stream,
            cuda.arithmetic(stream.get(), operation, left, on_device(stream.get(), b, dtype)), y,
            bound);
        if (b.layout() == Layout::row_major)
          expect_near(stream,
                      cuda.arithmetic(stream.get(), operation, left, unaligned(stream, b, dtype)),
                      y, bound);
      }
  }
}

TEST(CudaBroadcast, RepeatsATensorTimesAFactor) {
  EmulatedStream stream;
  struct Case {
    Shape from, to;
    Layout layout;
  };
  for (const auto& [from, to, layout] :
       {Case{{2, 3, 1, 1}, {2, 3, 4, 5}, Layout::row_major},
        Case{{2, 8, 1, 1}, {2, 8, 3, 5}, Layout::nhwc}, Case{{1, 7}, {300, 7}, Layout::row_major},
        Case{{1, 1}, {0, 7}, Layout::row_major}})
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Tensor x = random_tensor(from, 1);
      expect_near(
          stream,
          kernels(stream.get().device, dtype)
              .broadcast(stream.get(), on_device(stream.get(), x, dtype), to, layout, 1.0 / 3),
          reference::broadcast({}, x, to, layout, 1.0 / 3), dtype == DType::f64 ? 0.0 : 2e-7);
    }
}

TEST(CudaBroadcast, RefusesSizesThatDiffer) {
  EmulatedStream stream;
  const Tensor a = zeros(stream.get(), {3, 4}, DType::f64),
               b = zeros(stream.get(), {3, 2}, DType::f64);
  EXPECT_THROW(kernels(stream.get().device, DType::f64)
                   .arithmetic(stream.get(), ArithmeticOperation::add, a, b),
               Error);
}

struct Summed {
  Shape from, to, factor;
  Layout layout = Layout::row_major;
};

const std::vector<Summed>& sums() {
  constexpr Layout nhwc = Layout::nhwc;
  static const std::vector<Summed> all{
      {{}, {}, {}},
      {{1}, {1}, {1}},
      {{9001}, {1}, {9001}},                 // one long sum, of several blocks
      {{5, 4321}, {5, 1}, {1, 4321}},        // few long sums
      {{2600, 3}, {2600, 1}, {2600, 1}},     // many short sums
      {{5000, 3}, {1, 3}, {5000, 1}},        // few long sums of columns
      {{3, 700}, {1, 700}, {3, 700}},        // many short sums of columns
      {{40, 7, 30}, {1, 7, 1}, {40, 1, 1}},  // a bias of channels
      {{6, 50, 4}, {6, 1, 4}, {1, 50, 1}},   // inner elements that are fewer than lanes
      {{33, 20}, {33, 20}, {33, 20}},        // nothing to add
      {{2, 3, 4, 5, 2, 3}, {1, 3, 1, 5, 1, 3}, {2, 1, 4, 1, 2, 1}},
      {{0, 4}, {1, 4}, {1, 4}},
      {{3, 0}, {3, 0}, {3, 0}},
      {{2, 10, 5, 7}, {1, 10, 1, 1}, {2, 10, 5, 7}, nhwc},
      {{2, 10, 5, 7}, {2, 1, 5, 7}, {2, 10, 1, 1}, nhwc},  // one channel: row-major
      {{2, 10, 5, 7}, {2, 10, 1, 1}, {2, 1, 5, 7}, nhwc},
  };
  return all;
}

TEST(CudaSumTo, AddsUpManyAndFewTerms) {
  EmulatedStream stream;
  for (const Summed& s : sums())
    for (const DType dtype : {DType::f32, DType::f64})
      for (const bool with_factor : {false, true}) {
        SCOPED_TRACE(to_string(s.from) + " to " + to_string(s.to));
        const Tensor x = image(s.from, s.layout, 1);
        const bool small = s.factor.rank() == 4 && s.factor != s.from;
        const Tensor factor =
            with_factor ? image(s.factor, small ? Layout::row_major : s.layout, 2) : Tensor();
        const Tensor found =
            kernels(stream.get().device, dtype)
                .sum_to(stream.get(), on_device(stream.get(), x, dtype),
                        with_factor ? on_device(stream.get(), factor, dtype) : Tensor(), s.to, 0.5);
        expect_near(stream, found, reference::sum_to({}, x, factor, s.to, 0.5),
                    dtype == DType::f64 ? 1e-12 : 1e-5);
      }
}

// A sum in f32 would lose all of the small terms.
TEST(CudaSumTo, KeepsSmallTermsBesideALargeOne) {
  EmulatedStream stream;
  Tensor x = Tensor::empty({8193}, DType::f32, Device::cpu());
  std::ranges::fill(x.elements<float>(), 1.0f);
  x.data<float>()[0] = 0x1p25f;
  const Tensor sum =
      on_cpu(stream.get(), kernels(stream.get().device, DType::f32)
                               .sum_to(stream.get(), on_device(stream.get(), x), {}, {1}, 1.0));
  EXPECT_EQ(*sum.data<float>(), 0x1p25f + 8192.0f);
}

TEST(CudaSumTo, OfNothingIsNothingAndAMeanOfNothingNaN) {
  EmulatedStream stream;
  const Tensor x = Tensor::empty({0, 3}, DType::f32, stream.get().device);
  const KernelTable& cuda = kernels(stream.get().device, DType::f32);
  const Tensor sum = on_cpu(stream.get(), cuda.sum_to(stream.get(), x, {}, {1, 3}, 1.0));
  const Tensor mean = on_cpu(stream.get(), cuda.sum_to(stream.get(), x, {}, {1, 3}, HUGE_VAL));
  for (const float value : sum.elements<float>()) EXPECT_EQ(value, 0.0f);
  for (const float value : mean.elements<float>()) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace troupe::testing
