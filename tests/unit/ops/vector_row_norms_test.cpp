// Softmax and layer norm: kernels that normalise rows.
#include <algorithm>
#include <limits>

#include "ops/primitives/layer_norm.h"
#include "ops/primitives/softmax.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"
#include "tests/unit/ops/vector_support.h"

namespace troupe {
namespace {

using namespace test;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

const KernelTable& reference() { return kernels({}, DType::f64); }
Tensor exact(const Tensor& tensor) {
  return tensor.defined() ? cast(tensor, DType::f64) : Tensor();
}
std::vector<float> plain(const Tensor& tensor) { return values_of(cast(tensor, DType::f32)); }
Tensor random_rows(const Shape& shape, unsigned seed, float mean = 0.0f) {
  return random_tensor({Layout::row_major, shape}, seed, mean);
}

struct Along {
  Shape shape;
  int axis;
};
const std::vector<Along> lines{{{7, 1}, 1},       {{700, 33}, 1},   {{32, 4, 65, 65}, 3},
                               {{3, 5000}, 1},    {{5, 33, 17}, 1}, {{3, 70, 131}, 1},
                               {{1000, 3, 1}, 0}, {{9}, 0}};

TEST(VectorSoftmax, GivesWhatTheReferenceGivesOnAnyThreads) {
  for (const Along& along : lines)
    for (const bool logarithm : {false, true}) {
      const Shape& shape = along.shape;
      const int axis = along.axis;
      SCOPED_TRACE(to_string(shape));
      Tensor x = random_rows(shape, 1), grad = random_rows(shape, 2);
      for (float& value : x.elements<float>()) value *= 5;
      const Tensor y =
          on_any_threads([&](const Stream& s) { return table().softmax(s, x, axis, logarithm); });
      const Tensor expected = reference().softmax({}, exact(x), axis, logarithm);
      EXPECT_LT(distance(plain(y), plain(expected)), 1e-6);
      const Tensor dx = on_any_threads(
          [&](const Stream& s) { return table().softmax_backward(s, y, grad, axis, logarithm); });
      const Tensor slopes =
          reference().softmax_backward({}, exact(y), exact(grad), axis, logarithm);
      EXPECT_LT(distance(plain(dx), plain(slopes)), 1e-5);
    }
}

TEST(VectorSoftmax, DoesNotOverflowForLargeNumbers) {
  const Tensor x = vector_of({1e30f, 1e30f, -1e30f, 0.0f});
  EXPECT_EQ(values_of(table().softmax({}, x, 0, false)), (std::vector<float>{0.5f, 0.5f, 0, 0}));
  const auto logarithms = values_of(table().softmax({}, x, 0, true));
  EXPECT_FLOAT_EQ(logarithms[0], -0.69314718f);
  EXPECT_FLOAT_EQ(logarithms[2], -2e30f);
}

TEST(VectorSoftmax, GivesZeroWhereMinusInfinityMasksANumber) {
  for (const Shape& shape : {Shape{2, 20}, Shape{2, 20, 1}}) {
    Tensor x = Tensor::zeros(shape);
    for (int i = 5; i < 20; ++i) x.data<float>()[i] = -infinity;
    const auto y = values_of(table().softmax({}, x, 1, false));
    for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(y[i], i < 5 ? 0.2f : 0.0f);
  }
}

TEST(VectorSoftmax, MakesOnlyLinesOfNotANumberOrNothingButMasksNotANumber) {
  for (const float value : {nan, infinity, -infinity})
    for (const bool by_columns : {false, true})
      for (const bool logarithm : {false, true}) {
        const int axis = by_columns ? 0 : 1;
        Tensor x = Tensor::zeros(by_columns ? Shape{21, 3} : Shape{3, 21});
        const std::int64_t step = by_columns ? 3 : 1, line = by_columns ? 1 : 21;
        x.data<float>()[line] = value;
        if (value == -infinity)
          for (int i = 0; i < 21; ++i) x.data<float>()[line + i * step] = value;
        const auto y = values_of(table().softmax({}, x, axis, logarithm));
        for (std::size_t i = 0; i < y.size(); ++i) {
          const bool affected = by_columns ? i % 3 == 1 : i / 21 == 1;
          EXPECT_EQ(std::isnan(y[i]), affected) << value << " at " << i;
        }
      }
}

TEST(VectorSoftmax, OfNothingIsNothing) {
  for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}}) {
    const Tensor none = Tensor::empty(shape, DType::f32, Device::cpu());
    for (const int axis : {0, 1})
      EXPECT_EQ(table()
                    .softmax_backward({}, table().softmax({}, none, axis, false), none, axis, false)
                    .shape(),
                shape);
  }
}

TEST(SoftmaxPrimitive, RefusesAnAxisThatDoesNotExist) {
  Pass pass;
  for (const int axis : {2, -3})
    EXPECT_THROW(primitives::Softmax{axis}.forward(pass, Tensor::zeros({2, 3})), Error);
  EXPECT_THROW(primitives::Softmax{0}.forward(pass, Tensor::zeros({})), Error);
}

struct Rows {
  Shape shape;
  std::int64_t features;
  bool weighted;
};
const std::vector<Rows> rows{{{5, 7}, 7, true},           {{32, 65, 192}, 192, true},
                             {{700, 33}, 33, true},       {{3, 1}, 1, true},
                             {{2, 16, 9, 7}, 1008, true}, {{3, 40000}, 40000, true},
                             {{129, 130}, 130, false},    {{2080, 16}, 16, false}};

TEST(VectorLayerNorm, GivesWhatTheReferenceGivesOnAnyThreads) {
  for (const Rows& of : rows) {
    const Shape& shape = of.shape;
    const std::int64_t features = of.features;
    SCOPED_TRACE(to_string(shape));
    const Tensor x = random_rows(shape, 1, 3.0f), grad = random_rows(shape, 2);
    const Tensor weight = of.weighted ? random_rows({features}, 3, 1.0f) : Tensor();
    const Tensor bias = of.weighted ? random_rows({features}, 4) : Tensor();
    const auto forward = [&](const Stream& s) {
      return table().layer_norm(s, x, weight, bias, features, 1e-5);
    };
    const Tensor y = on_any_threads([&](const Stream& s) { return forward(s).y; });
    const LayerNormOutput output = forward({});
    const LayerNormOutput expected =
        reference().layer_norm({}, exact(x), exact(weight), exact(bias), features, 1e-5);
    EXPECT_LT(distance(plain(y), plain(expected.y)), 3e-6);
    EXPECT_LT(distance(plain(output.mean), plain(expected.mean)), 1e-6);
    EXPECT_LT(distance(plain(output.inverse_deviation), plain(expected.inverse_deviation)), 1e-6);
    const auto backward = [&](const Stream& s) {
      return table().layer_norm_backward(s, grad, x, weight, output, features);
    };
    const NormGradients exactly = reference().layer_norm_backward(
        {}, exact(grad), exact(x), exact(weight), expected, features);
    for (const auto part : {&NormGradients::x, &NormGradients::weight, &NormGradients::bias}) {
      const Tensor gradient = on_any_threads([&](const Stream& s) { return backward(s).*part; });
      EXPECT_LT(distance(plain(gradient), plain(exactly.*part)), 2e-5);
    }
  }
}

TEST(VectorLayerNorm, LosesNoAccuracyToALargeMean) {
  const Tensor x = random_rows({9, 192}, 1, 4096.0f);
  const Tensor y = table().layer_norm({}, x, {}, {}, 192, 1e-5).y;
  const Tensor expected = reference().layer_norm({}, exact(x), {}, {}, 192, 1e-5).y;
  EXPECT_LT(distance(plain(y), plain(expected)), 5e-4);  // the mean is rounded to 2^-11
}

TEST(VectorLayerNorm, GivesTheBiasForEqualNumbers) {
  const Tensor x = vector_of(std::vector<float>(21, 0.5f));
  const Tensor bias = random_rows({21}, 1);
  const LayerNormOutput output = table().layer_norm({}, x, random_rows({21}, 2), bias, 21, 1e-5);
  EXPECT_EQ(values_of(output.y), values_of(bias));
}

TEST(VectorLayerNorm, KeepsNotANumberInItsRow) {
  Tensor x = random_rows({3, 21}, 1);
  x.data<float>()[30] = nan;
  const auto y = values_of(table().layer_norm({}, x, {}, {}, 21, 1e-5).y);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 21 == 1);
}

TEST(VectorLayerNorm, HasGradientsOfZeroForNoRows) {
  const Tensor none = Tensor::empty({0, 7}, DType::f32, Device::cpu());
  const LayerNormOutput output = table().layer_norm({}, none, {}, {}, 7, 1e-5);
  const NormGradients gradients = table().layer_norm_backward({}, none, none, {}, output, 7);
  EXPECT_EQ(gradients.x.shape(), none.shape());
  EXPECT_EQ(values_of(gradients.weight), std::vector<float>(7, 0.0f));
}

TEST(LayerNormPrimitive, RefusesFeaturesThatAreNoLastAxes) {
  Pass pass;
  const auto message = [&](const Shape& shape, std::int64_t features) -> std::string {
    try {
      primitives::LayerNorm{.features = features}.forward(pass, Tensor::zeros(shape));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_shape);
      return error.message();
    }
    return {};
  };
  EXPECT_EQ(message({4, 6}, 12), "layer_norm: no last axes of [4, 6] have 12 elements together");
  EXPECT_EQ(message({4, 6}, 3), "layer_norm: no last axes of [4, 6] have 3 elements together");
  EXPECT_EQ(message({4, 6}, 6), "");
  EXPECT_EQ(message({4, 6}, 24), "");
}

TEST(LayerNormPrimitive, RefusesAWeightOfAnotherSize) {
  const std::vector<Tensor> weights{Tensor::zeros({5})};
  Pass pass;
  pass.weights = weights;
  EXPECT_THROW(
      (primitives::LayerNorm{.weight = {0}, .features = 6}.forward(pass, Tensor::zeros({4, 6}))),
      Error);
}

}  // namespace
}  // namespace troupe
