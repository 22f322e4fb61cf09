#include "ops/primitives/attention.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/error.h"
#include "runtime/tensor/cast.h"
#include "vector_support.h"

namespace troupe {
namespace {

using primitives::Attention;
using test::random_values, test::tensor_of, test::values_of;
using testing::Each;

Tensor random_tensor(const Shape& shape, unsigned seed) {
  return tensor_of(shape, Layout::row_major, random_values(shape.element_count(), seed));
}

struct Inputs {
  Tensor q, k, v;
};

Inputs inputs(const Shape& q, const Shape& k, const Shape& v) {
  return {random_tensor(q, 1), random_tensor(k, 2), random_tensor(v, 3)};
}

/// y and the gradients of q, k and v.
std::vector<Tensor> results(const Pass& pass, Attention attention, const Inputs& in) {
  const Tensor y = attention.forward(pass, cast(in.q, pass.dtype), cast(in.k, pass.dtype),
                                     cast(in.v, pass.dtype));
  std::vector<InputGradient> gradients(3);
  attention.input_gradient(pass, cast(random_tensor(y.shape(), 4), pass.dtype), gradients);
  return {y, gradients[0].grad, gradients[1].grad, gradients[2].grad};
}

// Several blocks of tokens, also of unequal size, and a short sequence, whose shares are kept.
TEST(Attention, AgreesWithTheReferenceAndGivesTheSameBitsForAnyThreads) {
  const Inputs square = inputs({2, 3, 300, 20}, {2, 3, 300, 20}, {2, 3, 300, 17});
  const Inputs wide = inputs({5, 40, 64}, {5, 1500, 64}, {5, 1500, 32});
  const Inputs small = inputs({2, 3, 21, 20}, {2, 3, 18, 20}, {2, 3, 18, 7});
  const Tensor mask = random_tensor({3, 300, 300}, 5);
  const std::vector<std::pair<Attention, Inputs>> cases{
      {{}, small},
      {{.causal = true, .mask = random_tensor({21, 18}, 7)}, small},
      {{}, square},
      {{.causal = true}, square},
      {{.scale = 0.3, .mask = mask}, square},
      {{.causal = true, .mask = random_tensor({2, 1, 1, 300}, 6)}, square},
      {{}, wide},
      {{.causal = true}, wide}};
  for (const auto& [attention, in] : cases) {
    const auto exact = results({.dtype = DType::f64}, attention, in);
    const auto one = results({}, attention, in);
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_LT(test::distance(values_of(one[i]), values_of(cast(exact[i], DType::f32))), 2e-5);
    for (const int threads : {2, 3, 4}) {
      const auto several = results({.stream = {.threads = threads}}, attention, in);
      for (std::size_t i = 0; i < one.size(); ++i) test::expect_same_bits(several[i], one[i]);
    }
  }
}

TEST(Attention, GivesZeroesToATokenThatSeesNoKey) {
  const Inputs in = inputs({1, 3, 4}, {1, 2, 4}, {1, 2, 4});
  const Tensor mask =
      tensor_of({3, 2}, Layout::row_major, {0, -INFINITY, -INFINITY, -INFINITY, 0, 0});
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto all = results({.dtype = dtype}, {.mask = mask}, in);
    const Tensor y = cast(all[0], DType::f32), q_grad = cast(all[1], DType::f32);
    EXPECT_THAT(values_of(y.reshape({3, 4}).narrow(1, 1)), Each(0.0f));
    EXPECT_THAT(values_of(q_grad.reshape({3, 4}).narrow(1, 1)), Each(0.0f));
    EXPECT_THAT(values_of(y.reshape({3, 4}).narrow(0, 1)),
                testing::ElementsAreArray(values_of(in.v.reshape({2, 4}).narrow(0, 1))));
    for (const Tensor& tensor : all)
      for (const float value : values_of(cast(tensor, DType::f32)))
        EXPECT_TRUE(std::isfinite(value));
  }
}

/// What `results` gives for one matrix and a mask [tokens, keys], with scores in T.
template <class T>
std::vector<std::vector<double>> plain_results(const Inputs& in, const Tensor& mask) {
  const std::int64_t tokens = in.q.dim(-2), keys = in.k.dim(-2), features = in.q.dim(-1),
                     outputs = in.v.dim(-1);
  const auto q = values_of(in.q), k = values_of(in.k), v = values_of(in.v);
  const auto grad = random_values(tokens * outputs, 4);
  std::vector<std::vector<double>> all(4);
  for (std::size_t i = 0; i < 4; ++i)
    all[i].assign(
        std::vector{tokens * outputs, tokens * features, keys * features, keys * outputs}[i], 0.0);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<double> scores, slopes;
    double largest = -INFINITY, sum = 0, mean = 0;
    for (std::int64_t key = 0; key < keys; ++key) {
      T score = 0;
      for (std::int64_t i = 0; i < features; ++i)
        score += static_cast<T>(q[t * features + i]) * static_cast<T>(k[key * features + i]);
      score += static_cast<T>(mask.data<double>()[t * keys + key]);
      largest = std::max(largest, scores.emplace_back(score));
    }
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (std::int64_t key = 0; key < keys; ++key) {
      const double share = scores[key] /= sum;
      double& slope = slopes.emplace_back(0.0);
      for (std::int64_t i = 0; i < outputs; ++i) {
        slope += grad[t * outputs + i] * v[key * outputs + i];
        all[0][t * outputs + i] += share * v[key * outputs + i];
        all[3][key * outputs + i] += share * grad[t * outputs + i];
      }
      mean += share * slope;
    }
    for (std::int64_t key = 0; key < keys; ++key)
      for (std::int64_t i = 0; i < features; ++i) {
        const double slope = scores[key] * (slopes[key] - mean);
        all[1][t * features + i] += slope * k[key * features + i];
        all[2][key * features + i] += slope * q[t * features + i];
      }
  }
  return all;
}

// Beside such numbers the logarithm of a sum is rounded off. Shares that are kept, and others.
TEST(Attention, SharesOutARowThatAFiniteNumberMasksAsAWhole) {
  for (const double hidden : {-1e38, double{std::numeric_limits<float>::lowest()}, -1e9})
    for (const std::int64_t features : {2, 4}) {
      const Inputs in = inputs({1, 3, features}, {1, 19, features}, {1, 19, 2});
      Tensor mask = Tensor::zeros({3, 19}, DType::f64);
      for (int e = 0; e < 19 + 7; ++e) mask.data<double>()[e] = hidden;
      for (const DType dtype : {DType::f32, DType::f64}) {
        const auto found = results({.dtype = dtype}, {.scale = 1.0, .mask = mask}, in);
        const auto expected =
            dtype == DType::f32 ? plain_results<float>(in, mask) : plain_results<double>(in, mask);
        for (std::size_t i = 0; i < 4; ++i) {
          const Tensor numbers = cast(found[i], DType::f64);
          ASSERT_EQ(numbers.elements<double>().size(), expected[i].size());
          for (std::size_t e = 0; e < expected[i].size(); ++e)
            EXPECT_NEAR(numbers.elements<double>()[e], expected[i][e], 2e-5)
                << hidden << " " << features << " " << name_of(dtype) << " " << i << " " << e;
        }
      }
    }
}

TEST(Attention, KeepsTheSharesOfShortSequencesAlone) {
  const auto saved = [](std::int64_t tokens) {
    const Shape x{2, tokens, 16};
    const Inputs in = inputs(x, x, x);
    Attention attention;
    attention.forward({}, in.q, in.k, in.v);
    return attention.saved().back().element_count();
  };
  EXPECT_EQ(saved(32), 2 * 32 * 32);
  EXPECT_EQ(saved(33), 2 * 33);
}

TEST(Attention, OfNoKeysIsZero) {
  const auto all = results({}, {}, inputs({2, 3, 4}, {2, 0, 4}, {2, 0, 5}));
  EXPECT_EQ(all[0].shape(), (Shape{2, 3, 5}));
  EXPECT_THAT(values_of(all[0]), Each(0.0f));
  EXPECT_THAT(values_of(all[1]), Each(0.0f));
}

TEST(Attention, DoesNotOverflowWithLargeScores) {
  Inputs in = inputs({1, 4, 8}, {1, 4, 8}, {1, 4, 8});
  const auto all = results({}, {.scale = 1e4}, in);
  for (const Tensor& tensor : all)
    for (const float value : values_of(tensor)) EXPECT_TRUE(std::isfinite(value));
}

TEST(Attention, RefusesTensorsThatDoNotFit) {
  const Shape x{2, 3, 4};
  const auto refuses = [](const Inputs& in, const Attention& attention = {}) {
    try {
      Attention(attention).forward({}, in.q, in.k, in.v);
      return false;
    } catch (const Error& error) {
      return error.code() == ErrorCode::bad_shape;
    }
  };
  EXPECT_FALSE(refuses(inputs(x, x, x)));
  EXPECT_TRUE(refuses(inputs(x, {2, 3, 5}, x)));
  EXPECT_TRUE(refuses(inputs(x, {1, 3, 4}, {1, 3, 4})));
  EXPECT_TRUE(refuses(inputs(x, x, {2, 4, 4})));
  EXPECT_TRUE(refuses(inputs({3}, {3}, {3})));
  EXPECT_TRUE(refuses(inputs(x, x, x), {.mask = random_tensor({3, 4}, 1)}));
  EXPECT_TRUE(refuses(inputs(x, x, x), {.mask = random_tensor({1, 1, 3, 3}, 1)}));
  EXPECT_FALSE(refuses(inputs(x, x, x), {.mask = random_tensor({1, 3, 1}, 1)}));
}

}  // namespace
}  // namespace troupe
