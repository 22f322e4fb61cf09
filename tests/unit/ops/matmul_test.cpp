#include "ops/primitives/matmul.h"

#include <gmock/gmock.h>

#include <vector>

#include "ops/primitives/linear.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"
#include "vector_support.h"

namespace troupe {
namespace {

using primitives::Matmul;
using test::random_values, test::tensor_of, test::values_of;
using testing::HasSubstr;

Tensor random_tensor(const Shape& shape, unsigned seed) {
  return tensor_of(shape, Layout::row_major, random_values(shape.element_count(), seed));
}

struct Case {
  Shape a, b;
  MatmulOptions options = {};
};

std::vector<Tensor> results(const Pass& pass, const Case& c, const Tensor& a, const Tensor& b) {
  Matmul matmul{c.options};
  const Tensor y = matmul.forward(pass, a, b);
  std::vector<InputGradient> gradients(2);
  const Tensor grad = cast(random_tensor(y.shape(), 3), pass.dtype);
  matmul.input_gradient(pass, grad, gradients);
  return {y, gradients[0].grad, gradients[1].grad};
}

// Products that are divided by rows, by matrices and not at all; sums over matrices.
TEST(Matmul, AgreesWithTheReferenceAndGivesTheSameBitsForAnyThreads) {
  const std::vector<Case> cases{{{300, 200}, {200, 150}},
                                {{20, 65, 33}, {20, 33, 65}},
                                {{8, 130, 64}, {64, 96}},
                                {{2, 1, 40, 30}, {5, 30, 70}},
                                {{8, 64, 130}, {64, 96}, {.transposed_a = true}},
                                {{3, 70, 64}, {3, 96, 64}, {.transposed_b = true}},
                                {{3, 64, 70}, {96, 64}, {true, true}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(to_string(c.a) + " times " + to_string(c.b));
    const Tensor a = random_tensor(c.a, 1), b = random_tensor(c.b, 2);
    const auto exact = results({.dtype = DType::f64}, c, cast(a, DType::f64), cast(b, DType::f64));
    const auto one = results({}, c, a, b);
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_LT(test::distance(values_of(one[i]), values_of(cast(exact[i], DType::f32))), 1e-4);
    for (const int threads : {2, 3, 4}) {
      const auto several = results({.stream = {.threads = threads}}, c, a, b);
      for (std::size_t i = 0; i < one.size(); ++i) test::expect_same_bits(several[i], one[i]);
    }
  }
}

TEST(Matmul, SumsTheProductsOfAllPairsOfMatrices) {
  const Tensor a = tensor_of({2, 1, 1, 1}, Layout::row_major, {1, 2}),
               b = tensor_of({1, 2, 1, 1}, Layout::row_major, {10, 100});
  const auto sum = [&](DType dtype, bool transposed_a) {
    const Tensor y = kernels(Device::cpu(), dtype)
                         .matmul({}, cast(a, dtype), cast(b, dtype), {transposed_a, false}, {1, 1});
    return values_of(cast(y, DType::f32));
  };
  for (const DType dtype : {DType::f32, DType::f64})
    for (const bool transposed : {false, true})
      EXPECT_THAT(sum(dtype, transposed), testing::ElementsAre(330));
}

TEST(Matmul, OfMatricesWithoutElementsIsEmptyOrZero) {
  EXPECT_EQ(Matmul{}.forward({}, random_tensor({0, 3}, 1), random_tensor({3, 2}, 1)).shape(),
            (Shape{0, 2}));
  EXPECT_THAT(values_of(Matmul{}.forward({}, random_tensor({1, 0}, 1), random_tensor({0, 2}, 1))),
              testing::ElementsAre(0, 0));
  const auto gradients =
      results({}, {{0, 2, 3}, {3, 1}}, random_tensor({0, 2, 3}, 1), random_tensor({3, 1}, 1));
  EXPECT_THAT(values_of(gradients[2]), testing::ElementsAre(0, 0, 0));
}

TEST(Matmul, RefusesFactorsThatDoNotFit) {
  const std::vector<Case> cases{{{2, 3}, {2, 3}},
                                {{3}, {3, 2}},
                                {{2, 4, 3}, {3, 3, 5}},
                                {{2, 3}, {3, 2}, {.transposed_b = true}}};
  for (const Case& c : cases) {
    try {
      Matmul{c.options}.forward({}, random_tensor(c.a, 1), random_tensor(c.b, 2));
      ADD_FAILURE() << to_string(c.a) << " times " << to_string(c.b) << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_shape);
      EXPECT_THAT(error.what(), HasSubstr(to_string(c.a) + " times " + to_string(c.b)));
    }
  }
}

TEST(Linear, RefusesAnInputWhoseLastAxisIsAnother) {
  primitives::Linear linear;
  linear.options = {.in_features = 3, .out_features = 2};
  for (const Shape& shape : {Shape{2, 3, 4}, Shape{3}, Shape{}})
    EXPECT_THROW(linear.forward({}, random_tensor(shape, 1)), Error) << to_string(shape);
}

}  // namespace
}  // namespace troupe
