#include "ops/primitives/embedding.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/error.h"
#include "runtime/tensor/cast.h"
#include "vector_support.h"

namespace troupe {
namespace {

using primitives::Embedding;
using test::random_values, test::tensor_of, test::values_of, test::vector_of;
using testing::HasSubstr;

Tensor random_tensor(const Shape& shape, unsigned seed) {
  return tensor_of(shape, Layout::row_major, random_values(shape.element_count(), seed));
}

Tensor indices_of(const std::vector<std::int64_t>& values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}

TEST(Embedding, RefusesIndicesThatNameNoRow) {
  const Tensor weight = random_tensor({5, 2}, 1);
  const auto refused = [&](const Tensor& indices) -> std::string {
    try {
      Embedding{}.forward({}, indices, weight);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_shape);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(refused(indices_of({0, 5})),
              HasSubstr("index 5 at place 0 of sample 1 of the micro-batch, but the weight has 5"));
  EXPECT_THAT(refused(indices_of({-1})), HasSubstr("index -1 at place 0"));
  EXPECT_THAT(refused(indices_of({INT64_MAX})), HasSubstr("at place 0"));
  EXPECT_THAT(refused(vector_of({0, 1.5f})), HasSubstr("index 1.5 at place 0 of sample 1"));
  EXPECT_THAT(refused(vector_of({-1.0f})), HasSubstr("index -1 at place 0"));
  EXPECT_THAT(refused(vector_of({std::nanf("")})), HasSubstr("nan at place 0"));
  EXPECT_THAT(refused(vector_of({INFINITY})), HasSubstr("inf at place 0"));
  EXPECT_THAT(refused(vector_of({1e30f})), HasSubstr("at place 0"));
}

TEST(Embedding, SpeaksOfPixelsOnlyIfIndicesAreNoWholeNumbers) {
  const auto remedy_for = [](const Tensor& indices) -> std::string {
    try {
      Embedding{}.forward({}, indices, random_tensor({5, 2}, 1));
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("at place 2 of sample 1 of the micro-batch"));
      return error.remedy();
    }
    return "no error";
  };
  const std::string whole =
      remedy_for(Tensor::from<std::int64_t>({2, 3}, std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_THAT(whole, HasSubstr("from 0 to 4"));
  EXPECT_THAT(whole, testing::Not(HasSubstr("u8")));
  EXPECT_THAT(remedy_for(Tensor::from<double>({2, 3}, std::vector<double>{0, 1, 2, 3, 4, 0.5})),
              HasSubstr("u8"));
}

/// nn.Embedding(5, 3, padding_idx=1)
TEST(Embedding, GivesNoGradientToARowOfPadding) {
  const Tensor weight = random_tensor({5, 3}, 1), grad = random_tensor({4, 3}, 2);
  const auto gradient = [&](std::int64_t padding_row) {
    Embedding embedding{.padding_row = padding_row};
    std::vector<InputGradient> gradients(2);
    embedding.forward({}, indices_of({1, 4, 1, 0}), weight);
    embedding.input_gradient({}, grad, gradients);
    return values_of(gradients[1].grad);
  };
  auto expected = gradient(-1);
  EXPECT_NE(expected[3], 0.0f);
  std::fill_n(expected.begin() + 3, 3, 0.0f);
  EXPECT_EQ(gradient(1), expected);
}

TEST(Embedding, RefusesAWeightThatIsNotOfRows) {
  EXPECT_THROW(Embedding{}.forward({}, indices_of({0}), random_tensor({5}, 1)), Error);
}

TEST(Embedding, GivesTheGradientOfTheReferenceAndTheSameBitsForAnyThreads) {
  constexpr std::int64_t rows = 40, features = 700, count = 3000;
  const Tensor weight = random_tensor({rows, features}, 1);
  const Tensor grad = random_tensor({count, features}, 2);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < count; ++i) indices.push_back(i * i % (rows - 1));
  const auto gradient = [&](const Pass& pass) {
    Embedding embedding;
    std::vector<InputGradient> gradients(2);
    embedding.forward(pass, indices_of(indices), cast(weight, pass.dtype));
    embedding.input_gradient(pass, cast(grad, pass.dtype), gradients);
    return gradients[1].grad;
  };
  const Tensor single =
      test::on_any_threads([&](const Stream& stream) { return gradient({.stream = stream}); });
  const Tensor exact = cast(gradient({.dtype = DType::f64}), DType::f32);
  EXPECT_LT(test::distance(values_of(single), values_of(exact)), 1e-5);
}

TEST(Embedding, OfNoIndicesHasAGradientOfZeroes) {
  Embedding embedding;
  EXPECT_EQ(embedding.forward({}, indices_of({}), random_tensor({2, 3}, 1)).shape(), (Shape{0, 3}));
  std::vector<InputGradient> gradients(2);
  embedding.input_gradient({}, random_tensor({0, 3}, 1), gradients);
  EXPECT_THAT(values_of(gradients[1].grad), testing::Each(0.0f));
}

}  // namespace
}  // namespace troupe
