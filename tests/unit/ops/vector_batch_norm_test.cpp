#include "runtime/error.h"
#include "tests/unit/ops/norm_kernels.h"
#include "tests/unit/ops/vector_support.h"

namespace troupe {
namespace {

using namespace test;

constexpr double epsilon = 1e-5;
const RandomKey key{.seed = 5, .operation = 1};

struct Moments {
  std::vector<double> mean, variance;
};

Moments moments_of(const Shape& shape, const std::vector<float>& x) {
  const auto channels = static_cast<std::size_t>(shape[1]);
  const double count = static_cast<double>(x.size()) / static_cast<double>(channels);
  Moments m{std::vector<double>(channels), std::vector<double>(channels)};
  for (std::size_t e = 0; e < x.size(); ++e) m.mean[channel_of(shape, e)] += x[e] / count;
  for (std::size_t e = 0; e < x.size(); ++e) {
    const std::size_t c = channel_of(shape, e);
    m.variance[c] += (x[e] - m.mean[c]) * (x[e] - m.mean[c]) / count;
  }
  return m;
}

struct Inputs {
  Tensor x, weight, bias, residual, grad;
  ChannelMoments moments;
};

Inputs inputs_of(const Case& c) {
  Inputs in;
  in.x = random_tensor(c, 1, 0.5f);
  in.weight = vector_of(random_values(c.shape[1], 2, 1.0f));
  in.bias = vector_of(random_values(c.shape[1], 3));
  in.residual = random_tensor(c, 4);
  in.grad = random_tensor(c, 5);
  in.moments = moments_by(table().channel_moments, {}, in.x);
  return in;
}

class VectorBatchNorm : public testing::TestWithParam<Case> {
 protected:
  const Case& c_ = GetParam();
  Inputs in_ = inputs_of(c_);

  /// norm(x) of the formula, in f64.
  std::vector<double> norm() const {
    const std::vector<float> x = values_of(in_.x);
    const Moments m = moments_of(c_.shape, x);
    std::vector<double> y;
    for (std::size_t e = 0; e < x.size(); ++e) {
      const std::size_t k = channel_of(c_.shape, e);
      y.push_back((x[e] - m.mean[k]) / std::sqrt(m.variance[k] + epsilon) *
                      in_.weight.data<float>()[k] +
                  in_.bias.data<float>()[k]);
    }
    return y;
  }

  Tensor forward(const Stream& stream, const NormEpilogue& epilogue) const {
    return table().batch_norm(stream, in_.x, in_.weight, in_.bias, in_.moments, epsilon, epilogue);
  }
  NormGradients backward(const Stream& stream, const Tensor& z, const NormEpilogue& epilogue,
                         bool batch_moments = true) const {
    return gradients_by(table().batch_norm_backward, stream, in_.grad, in_.x, z, in_.weight,
                        in_.bias, in_.moments, epsilon, epilogue, batch_moments);
  }
  void expect_gradients(const NormEpilogue& epilogue, bool batch_moments = true);
};
INSTANTIATE_TEST_SUITE_P(EveryLayout, VectorBatchNorm, testing::ValuesIn(images_and_rows()));

TEST_P(VectorBatchNorm, MomentsAgreeWithTwoPassesInDouble) {
  const Moments expected = moments_of(c_.shape, values_of(in_.x));
  const Tensor mean = on_any_threads(
      [&](const Stream& s) { return moments_by(table().channel_moments, s, in_.x).mean; });
  const Tensor variance = on_any_threads(
      [&](const Stream& s) { return moments_by(table().channel_moments, s, in_.x).variance; });
  EXPECT_LT(distance(values_of(mean), expected.mean), 3e-7);
  EXPECT_LT(distance(values_of(variance), expected.variance), 5e-7);
}

TEST_P(VectorBatchNorm, MomentsSurviveALargeMean) {
  const Tensor x = random_tensor(c_, 9, 3000.0f);
  const Moments expected = moments_of(c_.shape, values_of(x));
  const ChannelMoments moments = moments_by(table().channel_moments, {}, x);
  EXPECT_LT(distance(values_of(moments.mean), expected.mean), 1e-7);
  EXPECT_LT(distance(values_of(moments.variance), expected.variance), 1e-6);
}

TEST_P(VectorBatchNorm, ForwardAgreesWithTheFormula) {
  const Tensor y = on_any_threads([&](const Stream& s) { return forward(s, {}); });
  EXPECT_EQ(y.layout(), in_.x.layout());
  EXPECT_LT(distance(values_of(y), norm()), 3e-6);
}

TEST_P(VectorBatchNorm, EpiloguesAreTheSeparateOperationsInOnePass) {
  const Tensor y = forward({}, {}), activated = table().relu({}, y);
  expect_same_bits(on_any_threads([&](const Stream& s) { return forward(s, {.relu = true}); }),
                   activated);
  expect_same_bits(
      on_any_threads([&](const Stream& s) { return forward(s, {.residual = in_.residual}); }),
      table().arithmetic({}, ArithmeticOperation::add, y, in_.residual));
  expect_same_bits(on_any_threads([&](const Stream& s) {
                     return forward(s, {.relu = true, .residual = in_.residual});
                   }),
                   table().arithmetic({}, ArithmeticOperation::add, activated, in_.residual));
  const Tensor sum = table().arithmetic({}, ArithmeticOperation::add, y, in_.residual);
  const auto first = [&](bool relu) {
    return on_any_threads([&, relu](const Stream& s) {
      return forward(s, {.relu = relu, .residual = in_.residual, .residual_first = true});
    });
  };
  expect_same_bits(first(true), table().relu({}, sum));
  expect_same_bits(first(false), sum);
  expect_same_bits(on_any_threads([&](const Stream& s) {
                     return forward(s, {.relu = true, .dropout = 0.25f, .random = key});
                   }),
                   table().dropout({}, activated, 0.25f, key));
}

void VectorBatchNorm::expect_gradients(const NormEpilogue& epilogue, bool batch_moments) {
  const Tensor z = forward({}, epilogue);
  const std::vector<float> x = values_of(in_.x), output = values_of(z), grad = values_of(in_.grad);
  const Moments m = moments_of(c_.shape, x);
  const auto channels = static_cast<std::size_t>(c_.shape[1]);
  const double count = static_cast<double>(x.size()) / static_cast<double>(channels);
  const std::vector<float> activated = values_of(forward({}, {.relu = true}));
  std::vector<double> passed(x.size()), sum(channels), product(channels), dx(x.size());
  const auto normal = [&](std::size_t e, std::size_t k) {
    return (x[e] - m.mean[k]) / std::sqrt(m.variance[k] + epsilon);
  };
  for (std::size_t e = 0; e < x.size(); ++e) {
    const std::size_t k = channel_of(c_.shape, e);
    const bool blocked =
        (epilogue.relu && activated[e] <= 0) || (epilogue.dropout > 0 && output[e] == 0.0f);
    passed[e] = blocked ? 0.0 : grad[e] / (1.0 - static_cast<double>(epilogue.dropout));
    sum[k] += passed[e];
    product[k] += passed[e] * normal(e, k);
  }
  for (std::size_t e = 0; e < x.size(); ++e) {
    const std::size_t k = channel_of(c_.shape, e);
    const double slope = in_.weight.data<float>()[k] / std::sqrt(m.variance[k] + epsilon);
    const double centre = batch_moments ? (sum[k] + normal(e, k) * product[k]) / count : 0.0;
    dx[e] = slope * (passed[e] - centre);
  }
  // Sums of random signs grow as the root of their number, which is what their errors are held to.
  const double root = std::sqrt(count);
  for (std::size_t k = 0; k < channels; ++k) sum[k] /= root, product[k] /= root;
  const auto part = [&](auto member) {
    return values_of(on_any_threads(
        [&](const Stream& s) { return backward(s, z, epilogue, batch_moments).*member; }));
  };
  const auto by_root = [&](std::vector<float> values) {
    for (float& value : values) value /= static_cast<float>(root);
    return values;
  };
  EXPECT_LT(distance(by_root(part(&NormGradients::bias)), sum), 1e-6);
  EXPECT_LT(distance(by_root(part(&NormGradients::weight)), product), 1e-6);
  // A channel of one element has a slope of up to 300, which magnifies the last bit of x.
  EXPECT_LT(distance(part(&NormGradients::x), dx), count > 1 ? 5e-6 : 1e-4);
}

TEST_P(VectorBatchNorm, GradientsAgreeWithTheFormula) { expect_gradients({}); }
TEST_P(VectorBatchNorm, GradientsAgreeAfterRelu) { expect_gradients({.relu = true}); }
TEST_P(VectorBatchNorm, GradientsAgreeAfterReluAndDropout) {
  expect_gradients({.relu = true, .dropout = 0.25f, .random = key});
}
TEST_P(VectorBatchNorm, AResidualDoesNotChangeTheGradientsOfX) {
  expect_gradients({.relu = true, .residual = in_.residual});
}
// ReLU's gradient is that of the separate operation, and the norm's is that of a norm alone.
TEST_P(VectorBatchNorm, PassesTheGradientOfReluOfASumToBothTerms) {
  const NormEpilogue epilogue{.relu = true, .residual = in_.residual, .residual_first = true};
  const Tensor z = forward({}, epilogue);
  const Tensor passed = table().relu_backward({}, z, in_.grad);
  const auto part = [&](auto member) {
    return on_any_threads([&](const Stream& s) { return backward(s, z, epilogue).*member; });
  };
  const NormGradients expected = gradients_by(table().batch_norm_backward, {}, passed, in_.x, z,
                                              in_.weight, in_.bias, in_.moments, epsilon, {}, true);
  expect_same_bits(part(&NormGradients::residual), passed);
  expect_same_bits(part(&NormGradients::x), expected.x);
  expect_same_bits(part(&NormGradients::weight), expected.weight);
  expect_same_bits(part(&NormGradients::bias), expected.bias);
}
TEST_P(VectorBatchNorm, LeavesTheGradientOfAResidualAddedLastToTheCaller) {
  const NormEpilogue epilogue{.relu = true, .residual = in_.residual};
  EXPECT_FALSE(backward({}, forward({}, epilogue), epilogue).residual.defined());
}
TEST_P(VectorBatchNorm, GradientsAgreeForConstantMoments) {
  expect_gradients({.relu = true}, /*batch_moments=*/false);
}

TEST(VectorBatchNormValues, ConstantChannelsHaveNoVariance) {
  const Tensor x = tensor_of({3, 5, 2, 2}, Layout::nhwc, std::vector<float>(60, 0.1f));
  for (float v : moments_by(table().channel_moments, {}, x).variance.elements<float>())
    EXPECT_EQ(v, 0.0f);
}

TEST(VectorBatchNormErrors, NamesTheShapesThatDoNotFit) {
  const Tensor x = Tensor::zeros({2, 3, 4, 4}), c3 = Tensor::zeros({3}), c4 = Tensor::zeros({4});
  const ChannelMoments moments{c3, c3};
  const auto norm = [&](const Tensor& t, const Tensor& weight, const NormEpilogue& epilogue) {
    return table().batch_norm({}, t, weight, c3, moments, epsilon, epilogue);
  };
  EXPECT_NO_THROW(norm(x, c3, {}));
  EXPECT_THROW(norm(Tensor::zeros({2, 3, 4}), c3, {}), Error);
  EXPECT_THROW(norm(Tensor::zeros({0, 3, 4, 4}), c3, {}), Error);
  EXPECT_THROW(norm(x, c3, {.residual = Tensor::zeros({2, 3, 4, 5})}), Error);
  EXPECT_THROW(moments_by(table().channel_moments, {}, Tensor::zeros({2, 0, 4, 4})), Error);
  try {
    norm(x, c4, {});
    FAIL() << "four weights for three channels";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("[4]"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("3 elements"), std::string::npos) << error.message();
  }
}

TEST(VectorBatchNormErrors, RefusesEpiloguesThatAreNotFused) {
  const Tensor x = Tensor::zeros({2, 3, 4, 4}), c3 = Tensor::zeros({3});
  const ChannelMoments moments{c3, c3};
  const auto refuses = [&](const NormEpilogue& epilogue) {
    try {
      table().batch_norm({}, x, c3, c3, moments, epsilon, epilogue);
    } catch (const Error& error) {
      return error.code() == ErrorCode::unsupported;
    }
    return false;
  };
  EXPECT_TRUE(refuses({.relu = false, .dropout = 0.5f}));
  EXPECT_TRUE(refuses({.relu = true, .dropout = 0.5f, .residual = x}));
  EXPECT_TRUE(refuses({.relu = true, .dropout = 0.5f, .residual = x, .residual_first = true}));
  EXPECT_FALSE(refuses({.relu = true, .dropout = 0.5f}));
}

}  // namespace
}  // namespace troupe
