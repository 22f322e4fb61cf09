#include <algorithm>
#include <array>

#include "ops/cpu/processor.h"
#include "ops/primitives/arithmetic.h"
#include "ops/primitives/broadcasting.h"
#include "ops/primitives/reduction.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"
#include "tests/unit/ops/vector_support.h"

namespace troupe {
namespace {

using namespace test;
using enum Layout;

/// Two operands, each in a layout.
struct Operands {
  Case a, b;
};

std::vector<Operands> operands() {
  return {{{row_major, {3, 700, 33}}, {row_major, {1, 1, 33}}},
          {{row_major, {3, 700, 33}}, {row_major, {3, 700, 1}}},
          {{row_major, {32, 65, 19}}, {row_major, {1, 65, 19}}},
          {{row_major, {2, 3, 100, 101}}, {row_major, {2, 3, 1, 1}}},
          {{row_major, {2, 3, 5, 7}}, {row_major, {1, 3, 1, 1}}},
          {{nhwc, {3, 17, 33, 31}}, {row_major, {3, 17, 1, 1}}},
          {{nhwc, {3, 5, 33, 31}}, {row_major, {1, 5, 1, 1}}},
          {{nhwc, {3, 17, 13, 11}}, {row_major, {3, 1, 13, 11}}},
          {{nhwc, {2, 40, 5, 7}}, {nhwc, {1, 40, 5, 1}}},
          {{nchw16c, {3, 32, 28, 27}}, {row_major, {3, 32, 1, 1}}},
          {{nchw16c, {3, 32, 28, 27}}, {row_major, {1, 32, 1, 1}}},
          {{nchw16c, {3, 32, 28, 27}}, {nchw16c, {1, 32, 28, 27}}},
          {{nchw16c, {3, 32, 28, 27}}, {row_major, {3, 1, 28, 27}}},
          {{nchw16c, {1, 48, 3, 5}}, {row_major, {1, 1, 1, 1}}},
          {{row_major, {64, 64, 9}}, {row_major, {64, 64, 9}}},
          {{row_major, {200, 1, 33}}, {row_major, {1, 7, 33}}},
          {{row_major, {3, 1, 4, 1, 5, 1}}, {row_major, {1, 2, 4, 3, 1, 6}}},
          {{row_major, {20001}}, {row_major, {1}}},
          {{row_major, {}}, {row_major, {}}}};
}

void PrintTo(const Operands& o, std::ostream* out) {
  test::PrintTo(o.a, out);
  *out << " with ";
  test::PrintTo(o.b, out);
}

const KernelTable& reference() { return kernels({}, DType::f64); }

/// In logical order, as f32.
std::vector<float> plain(const Tensor& tensor) { return values_of(cast(tensor, DType::f32)); }

class VectorBroadcast : public testing::TestWithParam<Operands> {};
INSTANTIATE_TEST_SUITE_P(EveryLayout, VectorBroadcast, testing::ValuesIn(operands()));

TEST_P(VectorBroadcast, ArithmeticGivesWhatTheReferenceGives) {
  const Tensor a = random_tensor(GetParam().a, 1);
  const Tensor b = random_tensor(GetParam().b, 2, 30.0f);
  for (const ArithmeticOperation operation :
       {ArithmeticOperation::add, ArithmeticOperation::subtract, ArithmeticOperation::multiply,
        ArithmeticOperation::divide})
    for (const bool exchanged : {false, true}) {
      const Tensor &left = exchanged ? b : a, &right = exchanged ? a : b;
      const Tensor y = on_any_threads(
          [&](const Stream& s) { return table().arithmetic(s, operation, left, right); });
      const Tensor expected =
          reference().arithmetic({}, operation, cast(left, DType::f64), cast(right, DType::f64));
      EXPECT_EQ(y.layout(), expected.layout());
      EXPECT_LT(distance(plain(y), plain(expected)), 1e-6);
    }
}

TEST_P(VectorBroadcast, SumsAreTheGradientsOfBroadcasts) {
  const Tensor a = random_tensor(GetParam().a, 1), b = random_tensor(GetParam().b, 2);
  const Tensor grad = table().arithmetic({}, ArithmeticOperation::add, a, b);
  for (const Tensor& factor : {Tensor(), b, a})
    for (const Tensor& operand : {a, b}) {
      const Tensor sums = on_any_threads(
          [&](const Stream& s) { return table().sum_to(s, grad, factor, operand.shape(), 0.125); });
      const Tensor expected = reference().sum_to(
          {}, cast(grad, DType::f64), factor.defined() ? cast(factor, DType::f64) : Tensor(),
          operand.shape(), 0.125);
      EXPECT_EQ(sums.layout(), expected.layout());
      EXPECT_LT(distance(plain(sums), plain(expected)), 5e-6);
    }
}

TEST_P(VectorBroadcast, RepeatsElementsInTheLayoutOfTheResult) {
  const Tensor a = random_tensor(GetParam().a, 1), b = random_tensor(GetParam().b, 2);
  const Tensor whole = table().arithmetic({}, ArithmeticOperation::add, a, b);
  for (const Tensor& operand : {a, b}) {
    const Tensor y = on_any_threads([&](const Stream& s) {
      return table().broadcast(s, operand, whole.shape(), whole.layout(), -2.0);
    });
    const Tensor expected =
        reference().broadcast({}, cast(operand, DType::f64), whole.shape(), whole.layout(), -2.0);
    EXPECT_EQ(y.layout(), whole.layout());
    EXPECT_EQ(plain(y), plain(expected));
  }
}

TEST(VectorBroadcastValues, SumsOfManyElementsLoseNoAccuracy) {
  const Tensor ones = Tensor::empty({5'000'001}, DType::f32, Device::cpu());
  std::ranges::fill(ones.elements<float>(), 0.1f);
  const Tensor sum =
      on_any_threads([&](const Stream& s) { return table().sum_to(s, ones, {}, Shape{1}, 1.0); });
  // Shorter vectors add more of the equally rounded numbers to each lane. One sum is off by 21,725.
  EXPECT_NEAR(*sum.data<float>(), 500000.1f, cpu::has_avx512() ? 0.5f : 2.5f);
  const Tensor columns =
      table().sum_to({}, ones.narrow(0, 5'000'000).reshape({1'250'000, 4}), {}, Shape{1, 4}, 1.0);
  for (const float value : columns.elements<float>()) EXPECT_NEAR(value, 125000.0f, 0.2f);
}

TEST(VectorBroadcastValues, SumsOverAnyAxesAreThoseOfTheReference) {
  const Tensor x = random_tensor({row_major, {6, 50, 7, 90}}, 3);
  for (const Shape& shape :
       {Shape{1, 1, 1, 90}, Shape{1, 50, 7, 90}, Shape{6, 50, 1, 1}, Shape{6, 1, 7, 1},
        Shape{1, 50, 1, 90}, Shape{1, 1, 1, 1}, x.shape()}) {
    const Tensor sums =
        on_any_threads([&](const Stream& s) { return table().sum_to(s, x, {}, shape, 1.0); });
    const Tensor expected = reference().sum_to({}, cast(x, DType::f64), {}, shape, 1.0);
    EXPECT_LT(distance(plain(sums), plain(expected)), 1e-5) << to_string(shape);
  }
}

TEST(VectorBroadcastValues, SumsOfNothingAreZeroAndMeansOfNothingNotANumber) {
  const Tensor none = Tensor::empty({0, 3}, DType::f32, Device::cpu());
  EXPECT_EQ(values_of(table().sum_to({}, none, {}, Shape{1, 3}, 1.0)), std::vector<float>(3, 0.0f));
  for (const float mean : values_of(table().sum_to({}, none, {}, Shape{1, 3}, INFINITY)))
    EXPECT_TRUE(std::isnan(mean));
  EXPECT_EQ(table().sum_to({}, none, {}, Shape{0, 1}, 1.0).element_count(), 0);
  const Tensor row = Tensor::zeros({1, 3});
  EXPECT_EQ(table().arithmetic({}, ArithmeticOperation::add, none, row).shape(), (Shape{0, 3}));
  EXPECT_EQ(table().broadcast({}, row, {0, 3}, row_major, 1.0).element_count(), 0);
}

TEST(VectorBroadcastValues, NotANumberReachesTheSumsThatContainItOnly) {
  Tensor x = Tensor::zeros({3, 40});
  x.data<float>()[40] = NAN;
  const auto rows = values_of(table().sum_to({}, x, {}, Shape{3, 1}, 1.0));
  EXPECT_TRUE(rows[0] == 0 && std::isnan(rows[1]) && rows[2] == 0);
  const auto columns = values_of(table().sum_to({}, x, {}, Shape{1, 40}, 1.0));
  EXPECT_EQ(std::ranges::count_if(columns, [](float v) { return std::isnan(v); }), 1);
}

TEST(VectorBroadcastErrors, NameTheShapesThatDoNotFit) {
  const Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({2, 4});
  try {
    table().arithmetic({}, ArithmeticOperation::add, a, b);
    FAIL() << "shapes differ";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_shape);
    EXPECT_NE(error.message().find("[2, 3]"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("[2, 4]"), std::string::npos) << error.message();
  }
  EXPECT_THROW(table().arithmetic({}, ArithmeticOperation::add, a, Tensor::zeros({3})), Error);
  EXPECT_THROW(table().sum_to({}, a, {}, Shape{2, 2}, 1.0), Error);
  EXPECT_THROW(table().sum_to({}, a, Tensor::zeros({2, 2}), Shape{2, 1}, 1.0), Error);
  EXPECT_THROW(table().broadcast({}, a, {2, 4}, row_major, 1.0), Error);
  const Tensor images = Tensor::zeros({2, 16, 3, 3}, DType::f32, nhwc);
  EXPECT_THROW(
      table().arithmetic({}, ArithmeticOperation::add, images, Tensor::zeros({1, 16, 3, 3})),
      Error);
}

Pass pass_of() {
  Pass pass;
  pass.dtype = DType::f32;
  return pass;
}

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_shape);
    EXPECT_FALSE(error.remedy().empty());
    return error.message();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(ArithmeticPrimitive, RefusesShapesThatCannotBeBroadcast) {
  const auto record = [](const Shape& a, const Shape& b) {
    primitives::Arithmetic{}.forward(pass_of(), Tensor::zeros(a), Tensor::zeros(b));
  };
  EXPECT_EQ(message_of([&] {
              record({2, 3, 4}, {3, 5});
            }),
            "arithmetic: [2, 3, 4] and [3, 5] cannot be broadcast: sizes 4 and 5 differ");
  EXPECT_NE(message_of([&] { record({0}, {2}); }), "");
}

TEST(ArithmeticPrimitive, KeepsImagesInTheirLayout) {
  for (const Layout layout : {row_major, nhwc, nchw16c})
    for (const Shape& gate : {Shape{2, 16, 1, 1}, Shape{16, 1, 1}, Shape{1, 16, 1, 1}, Shape{},
                              Shape{2, 16, 3, 5}, Shape{16, 3, 5}}) {
      const Tensor x = random_tensor({layout, {2, 16, 3, 5}}, 1);
      const Tensor y = primitives::Arithmetic{ArithmeticOperation::multiply}.forward(
          pass_of(), x, random_tensor({row_major, gate}, 2));
      EXPECT_EQ(y.layout(), layout) << to_string(gate);
    }
}

TEST(ReducePrimitive, RefusesAxesThatDoNotExistOrAreGivenTwice) {
  const auto reduce = [](std::vector<int> axes) {
    primitives::Reduce{.axes = std::move(axes)}.forward(pass_of(), Tensor::zeros({2, 3, 4}));
  };
  EXPECT_EQ(message_of([&] { reduce({3}); }), "reduce: [2, 3, 4] has 3 axes, and no axis 3");
  EXPECT_EQ(message_of([&] { reduce({-4}); }), "reduce: [2, 3, 4] has 3 axes, and no axis -4");
  EXPECT_EQ(message_of([&] { reduce({1, -2}); }), "reduce: axis -2 of [2, 3, 4] is given twice");
}

}  // namespace
}  // namespace troupe
