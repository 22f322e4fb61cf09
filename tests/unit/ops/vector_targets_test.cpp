// The kernels choose an instruction set at run time; these tests choose it for them.

#include "ops/cpu/targets.h"
// Highway after the choice of targets.
#include <hwy/highway.h>

#include <algorithm>

#include "ops/cpu/f64_kernels.h"
#include "ops/cpu/processor.h"
#include "ops/loss.h"
#include "tests/unit/ops/norm_kernels.h"
#include "tests/unit/ops/vector_support.h"

namespace troupe {
namespace {

using namespace test;

class EveryInstructionSet : public testing::TestWithParam<std::int64_t> {
 protected:
  /// What f gives with the best instruction set, and with that of the parameter.
  template <class F>
  auto both(const F& f) const {
    auto best = f();
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    auto other = f();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    return std::pair(best, other);
  }
};
INSTANTIATE_TEST_SUITE_P(OfThisProcessor, EveryInstructionSet,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& info) { return hwy::TargetName(info.param); });

TEST_P(EveryInstructionSet, DropsTheSameElements) {
  const RandomKey key{.seed = 0x123456789abcdef0u, .step = 7, .micro_batch = 3, .operation = 99};
  for (const Case& c : images_and_rows()) {
    const Tensor x = random_tensor(c, 1);
    const auto [best, other] = both([&] { return table().dropout({}, x, 0.3f, key); });
    expect_same_bits(best, other);
  }
}

TEST_P(EveryInstructionSet, TakesTheSameMaxima) {
  for (const Case& c : images()) {
    if (c.shape[2] < 2) continue;  // smaller than the window
    const Tensor x = random_tensor(c, 1);
    const PoolOptions options;
    const auto [y, other_y] = both([&] { return table().max_pool({}, x, options); });
    expect_same_bits(y, other_y);
    const Tensor grad = random_tensor({c.layout, y.shape()}, 2);
    const auto [dx, other_dx] =
        both([&] { return table().max_pool_backward({}, grad, x, options); });
    expect_same_bits(dx, other_dx);
  }
}

void expect_near(const std::vector<Tensor>& some, const std::vector<Tensor>& others) {
  for (std::size_t i = 0; i < others.size(); ++i)
    for (std::int64_t e = 0; e < others[i].element_count(); ++e)
      ASSERT_NEAR(some[i].data<double>()[e], others[i].data<double>()[e], 1e-10) << i;
}

TEST_P(EveryInstructionSet, ComputesInF64ToTheSameValues) {
  const auto random = [](const Shape& shape, unsigned seed) {
    Tensor tensor = Tensor::empty(shape, DType::f64, Device::cpu());
    std::ranges::copy(random_values(shape.element_count(), seed, 1.0f),
                      tensor.elements<double>().begin());
    return tensor;
  };
  const Tensor x = random({3, 5, 11, 9}, 1), grad = random({3, 21, 11, 9}, 2);
  const auto kernel =
      cpu::convolution_f64({.in_channels = 5, .out_channels = 21, .padding_h = 1, .padding_w = 1});
  kernel->use_weights({}, random({21, 5, 3, 3}, 3), random(Shape{21}, 4), 1);
  const auto [best, other] = both([&] {
    std::vector<Tensor> all{kernel->forward({}, x),
                            kernel->input_gradient({}, grad, x.shape(), x.layout()),
                            random({21, 5, 3, 3}, 5), random(Shape{21}, 6)};
    kernel->weight_gradient({}, x, grad, all[2], all[3]);
    return all;
  });
  expect_near(other, best);

  const KernelTable& f64 = kernels({}, DType::f64);
  const Tensor a = random({3, 33, 700}, 1), b = random({3, 700, 29}, 2), q = random({2, 21, 9}, 3),
               wide = random({2, 9, 21}, 8);
  const Tensor weight = random(Shape{5}, 5), bias = random(Shape{5}, 6),
               slope = random(q.shape(), 7);
  const auto [vectors, others] = both([&] {
    const AttentionOutput output = f64.attention({}, q, q, q, {}, {.causal = true});
    const AttentionGradients g =
        f64.attention_backward({}, slope, q, q, q, {}, output, {.causal = true});
    const ChannelMoments moments = moments_by(f64.channel_moments, {}, x);
    const Tensor z = f64.batch_norm({}, x, weight, bias, moments, 1e-5, {});
    const NormGradients n =
        gradients_by(f64.batch_norm_backward, {}, z, x, z, weight, bias, moments, 1e-5, {}, true);
    const AttentionOutput kept = f64.attention({}, wide, wide, wide, {}, {});
    const PoolOptions pool;
    const Tensor pooled = f64.max_pool({}, x, pool);
    return std::vector{f64.dropout({}, x, 0.3, {.seed = 3}),
                       pooled,
                       f64.max_pool_backward({}, pooled, x, pool),
                       kept.y,
                       f64.matmul({}, a, b, {}, {3, 33, 29}),
                       output.y,
                       g.q,
                       g.k,
                       g.v,
                       moments.mean,
                       moments.variance,
                       z,
                       n.x,
                       n.weight,
                       n.bias};
  });
  expect_near(others, vectors);
}

TEST_P(EveryInstructionSet, NormalisesToTheSameValues) {
  for (const Case& c : images_and_rows()) {
    if (c.shape.element_count() == c.shape[1]) continue;  // no spread to normalise by
    const Tensor x = random_tensor(c, 1, 2.0f), grad = random_tensor(c, 2);
    const Tensor weight = vector_of(random_values(c.shape[1], 3, 1.0f));
    const Tensor bias = vector_of(random_values(c.shape[1], 4, 20.0f));  // relu stays clear of 0
    const auto [best, other] = both([&] {
      const ChannelMoments moments = moments_by(table().channel_moments, {}, x);
      const NormEpilogue epilogue{.relu = true};
      const Tensor z = table().batch_norm({}, x, weight, bias, moments, 1e-5, epilogue);
      const NormGradients gradients = gradients_by(table().batch_norm_backward, {}, grad, x, z,
                                                   weight, bias, moments, 1e-5, epilogue, true);
      const NormEpilogue of_sum{.relu = true, .residual = x, .residual_first = true};
      const Tensor sum = table().batch_norm({}, x, weight, bias, moments, 1e-5, of_sum);
      const NormGradients of_both = gradients_by(table().batch_norm_backward, {}, grad, x, sum,
                                                 weight, bias, moments, 1e-5, of_sum, true);
      return std::vector{values_of(z),
                         values_of(gradients.x),
                         values_of(gradients.weight),
                         values_of(gradients.bias),
                         values_of(sum),
                         values_of(of_both.x),
                         values_of(of_both.residual)};
    });
    for (std::size_t part = 0; part < best.size(); ++part)
      EXPECT_LT(distance(other[part], best[part]), 5e-5) << to_string(c.shape) << " " << part;
  }
}

TEST_P(EveryInstructionSet, GivesTheSameLoss) {
  const Tensor logits = random_tensor({Layout::row_major, {33, 17}}, 1);
  const Tensor targets = Tensor::zeros({33}, DType::i64);
  const auto [best, other] =
      both([&] { return table().softmax_cross_entropy({}, logits, targets, 1.0, true, 0, {}); });
  EXPECT_NEAR(read_totals({}, best).loss_sum, read_totals({}, other).loss_sum, 1e-5);
  EXPECT_LT(distance(values_of(other.logits_grad), values_of(best.logits_grad)), 1e-6);
}

TEST_P(EveryInstructionSet, ActivatesToTheSameValues) {
  const Tensor x = random_tensor({Layout::row_major, {3, 701}}, 1);
  const Tensor grad = random_tensor({Layout::row_major, {3, 701}}, 2);
  for (const auto function :
       {ActivationFunction::sigmoid, ActivationFunction::tanh, ActivationFunction::silu,
        ActivationFunction::gelu, ActivationFunction::gelu_tanh, ActivationFunction::hardswish}) {
    const auto [best, other] = both([&] {
      return std::pair(values_of(table().activate({}, function, x)),
                       values_of(table().activate_backward({}, function, x, grad)));
    });
    EXPECT_LT(distance(other.first, best.first), 1e-6);
    EXPECT_LT(distance(other.second, best.second), 2e-6);
  }
}

TEST_P(EveryInstructionSet, NormalisesRowsAndSumsToTheSameValues) {
  const Shape shape{65, 7, 193};
  const Tensor x = random_tensor({Layout::row_major, shape}, 1, 2.0f);
  const Tensor grad = random_tensor({Layout::row_major, shape}, 2);
  const auto [best, other] = both([&] {
    const LayerNormOutput norm = table().layer_norm({}, x, {}, {}, 193, 1e-5);
    const NormGradients gradients = table().layer_norm_backward({}, grad, x, {}, norm, 193);
    const Tensor rows = table().softmax({}, x, 2, false);
    return std::vector{values_of(norm.y),
                       values_of(gradients.x),
                       values_of(gradients.weight),
                       values_of(rows),
                       values_of(table().softmax_backward({}, rows, grad, 2, false)),
                       values_of(table().softmax({}, x, 1, true)),
                       values_of(table().sum_to({}, grad, x, {65, 7, 1}, 1.0)),
                       values_of(table().sum_to({}, grad, x, {1, 1, 193}, 1.0))};
  });
  for (std::size_t part = 0; part < best.size(); ++part)
    EXPECT_LT(distance(other[part], best[part]), 5e-5) << part;
}

TEST_P(EveryInstructionSet, SumsTheWeightGradientsOfDepthwiseConvolutions) {
  for (const std::int64_t channels : {48, 21}) {
    const ConvolutionOptions options{.in_channels = channels,
                                     .out_channels = channels,
                                     .kernel_h = 5,
                                     .kernel_w = 5,
                                     .padding_h = 2,
                                     .padding_w = 2,
                                     .groups = channels};
    const Tensor x = random_tensor({Layout::nhwc, {9, channels, 7, 6}}, 1);
    const Tensor grad = random_tensor({Layout::nhwc, {9, channels, 7, 6}}, 2);
    const auto [best, other] = both([&] {
      Tensor weights = Tensor::empty(weight_shape(options), DType::f32, Device::cpu());
      Tensor biases = Tensor::empty({channels}, DType::f32, Device::cpu());
      table().convolution(options)->weight_gradient({}, x, grad, weights, biases);
      return std::vector{values_of(weights), values_of(biases)};
    });
    for (std::size_t part = 0; part < best.size(); ++part)
      EXPECT_LT(distance(other[part], best[part]), 1e-5) << channels << " channels, " << part;
  }
}

TEST_P(EveryInstructionSet, ConvolvesByWinogradToTheSameValues) {
  if (!cpu::has_avx512()) GTEST_SKIP() << "Winograd is for AVX-512";
  const ConvolutionOptions options{.in_channels = 32,
                                   .out_channels = 48,
                                   .kernel_h = 3,
                                   .kernel_w = 3,
                                   .padding_h = 1,
                                   .padding_w = 1,
                                   .algorithm = ConvolutionAlgorithm::winograd};
  const Tensor weight = random_tensor({Layout::row_major, weight_shape(options)}, 1);
  const Tensor bias = random_tensor({Layout::row_major, {48}}, 2);
  const Tensor x = random_tensor({Layout::nchw16c, {3, 32, 9, 6}}, 3);
  const Tensor grad = random_tensor({Layout::nchw16c, {3, 48, 9, 6}}, 4);
  const auto [best, other] = both([&] {
    const auto kernel = table().convolution(options);
    kernel->use_weights({}, weight, bias, 1);
    Tensor weights = Tensor::empty(weight.shape(), DType::f32, Device::cpu());
    Tensor biases = Tensor::empty(bias.shape(), DType::f32, Device::cpu());
    kernel->weight_gradient({}, x, grad, weights, biases);
    return std::vector{values_of(kernel->forward({}, x)),
                       values_of(kernel->input_gradient({}, grad, x.shape(), x.layout())),
                       values_of(weights), values_of(biases)};
  });
  // SSE4 rounds products before it adds them; sums of 160 to 288 products are of the order of 10.
  for (std::size_t part = 0; part < best.size(); ++part)
    EXPECT_LT(distance(other[part], best[part]), 2e-4) << part;
}

TEST_P(EveryInstructionSet, AttendsToTheSameValues) {
  const auto random = [](const Shape& shape, unsigned seed) {
    return random_tensor({Layout::row_major, shape}, seed);
  };
  const Tensor q = random({3, 37, 9}, 1), k = random({3, 41, 9}, 2), v = random({3, 41, 5}, 3);
  const Tensor grad = random({3, 37, 5}, 4), mask = random({37, 41}, 5);
  const AttentionOptions options{.causal = true, .scale = 0.5};
  const auto [best, other] = both([&] {
    const AttentionOutput output = table().attention({}, q, k, v, mask, options);
    const AttentionGradients gradients =
        table().attention_backward({}, grad, q, k, v, mask, output, options);
    return std::vector{values_of(output.y), values_of(gradients.q), values_of(gradients.k),
                       values_of(gradients.v)};
  });
  for (std::size_t part = 0; part < best.size(); ++part)
    EXPECT_LT(distance(other[part], best[part]), 1e-5) << part;
}

}  // namespace
}  // namespace troupe
