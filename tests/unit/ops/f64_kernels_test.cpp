// The vectorised kernels of f64 against the reference's plain loops.
#include "ops/cpu/f64_kernels.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "ops/reference/kernels.h"
#include "ops/reference/reorder.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"
#include "tests/unit/ops/norm_kernels.h"

namespace troupe {
namespace {

Tensor random(const Shape& shape, unsigned seed) {
  Tensor tensor = Tensor::empty(shape, DType::f64, Device::cpu());
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  for (double& value : tensor.elements<double>()) value = normal(generator);
  return tensor;
}

/// The largest difference, in units of the largest number expected.
double difference(const Tensor& found, const Tensor& expected) {
  EXPECT_EQ(found.shape(), expected.shape());
  EXPECT_EQ(found.layout(), expected.layout());
  double most = 0, scale = 1e-300;
  for (std::int64_t i = 0; i < expected.element_count(); ++i) {
    const double want = expected.data<double>()[i];
    scale = std::max(scale, std::abs(want));
    const double distance = std::abs(found.data<double>()[i] - want);
    most = std::max(most, distance >= 0 ? distance : INFINITY);
  }
  return most / scale;
}

/// What a layer makes of an input and a gradient.
struct Outcome {
  Tensor y, x_grad, w_grad, b_grad;
};

struct Layer {
  Shape x, y, weight;
  bool bias = true;
  Layout layout = Layout::row_major;  ///< of x and of the gradient

  Outcome compute(LayerKernel& kernel, int threads) const {
    const Stream stream{.threads = threads};
    const Tensor input = reference::in_layout(random(x, 1), layout);
    const Tensor grad = reference::in_layout(random(y, 2), layout);
    const Shape bias_shape{weight[0]};
    kernel.use_weights(stream, random(weight, 3), bias ? random(bias_shape, 4) : Tensor(), 1);
    Outcome outcome{
        .y = kernel.forward(stream, input),
        .x_grad = kernel.input_gradient(stream, grad, x, layout),
        .w_grad = Tensor::empty(weight, DType::f64, Device::cpu()),
        .b_grad = bias ? Tensor::empty(bias_shape, DType::f64, Device::cpu()) : Tensor()};
    kernel.weight_gradient(stream, input, grad, outcome.w_grad, outcome.b_grad);
    return outcome;
  }

  void expect_the_references(LayerKernel& kernel, LayerKernel& reference) const {
    const Outcome found = compute(kernel, 1), expected = compute(reference, 1);
    EXPECT_LT(difference(found.y, expected.y), 1e-12);
    EXPECT_LT(difference(found.x_grad, expected.x_grad), 1e-12);
    EXPECT_LT(difference(found.w_grad, expected.w_grad), 1e-12);
    if (bias) {
      EXPECT_LT(difference(found.b_grad, expected.b_grad), 1e-12);
    }
    for (const int threads : {2, 5}) {
      const Outcome again = compute(kernel, threads);
      EXPECT_EQ(difference(again.y, found.y), 0) << threads << " threads";
      EXPECT_EQ(difference(again.x_grad, found.x_grad), 0) << threads << " threads";
      EXPECT_EQ(difference(again.w_grad, found.w_grad), 0) << threads << " threads";
      if (bias) {
        EXPECT_EQ(difference(again.b_grad, found.b_grad), 0) << threads << " threads";
      }
    }
  }
};

struct Sizes {
  std::int64_t samples, in, height, width, out, kernel_h, kernel_w, stride_h, stride_w, padding_h,
      padding_w;
};

// Odd sizes, strides above and below the kernel's size, and padding beyond the kernel.
constexpr Sizes convolutions[] = {
    {4, 1, 9, 7, 16, 3, 3, 1, 1, 1, 1},     {3, 16, 14, 14, 16, 3, 3, 1, 1, 1, 1},
    {5, 16, 9, 11, 32, 3, 3, 2, 2, 1, 1},   {2, 16, 9, 8, 32, 1, 1, 2, 2, 0, 0},
    {2, 5, 6, 9, 7, 3, 3, 1, 1, 1, 1},      {1, 3, 11, 8, 6, 2, 2, 3, 3, 0, 0},
    {9, 64, 7, 7, 64, 3, 3, 1, 1, 1, 1},    {2, 2, 13, 13, 4, 7, 7, 2, 2, 3, 3},
    {1, 16, 1, 1, 16, 3, 3, 1, 1, 1, 1},    {2, 8, 4, 4, 1, 3, 3, 1, 1, 2, 2},
    {2, 16, 5, 6, 16, 1, 3, 2, 1, 0, 2},    {3, 2, 10, 3, 9, 5, 1, 3, 1, 4, 0},
    {2, 3, 4, 5, 10, 2, 2, 1, 1, 3, 4},     {1, 4, 8, 8, 3, 8, 8, 8, 8, 0, 0},
    {2, 3, 32, 32, 25, 11, 11, 4, 4, 2, 2}, {70, 1, 2, 2, 1, 1, 1, 1, 1, 0, 0}};

class F64Convolution : public testing::TestWithParam<Sizes> {};

TEST_P(F64Convolution, AgreesWithTheReferenceForAnyThreads) {
  const Sizes& s = GetParam();
  ConvolutionOptions options{.in_channels = s.in,
                             .out_channels = s.out,
                             .kernel_h = s.kernel_h,
                             .kernel_w = s.kernel_w,
                             .stride_h = s.stride_h,
                             .stride_w = s.stride_w,
                             .padding_h = s.padding_h,
                             .padding_w = s.padding_w};
  const Layer layer{
      .x = {s.samples, s.in, s.height, s.width},
      .y = {s.samples, s.out, (s.height + 2 * s.padding_h - s.kernel_h) / s.stride_h + 1,
            (s.width + 2 * s.padding_w - s.kernel_w) / s.stride_w + 1},
      .weight = {s.out, s.in, s.kernel_h, s.kernel_w}};
  for (const bool bias : {true, false})
    for (const Layout layout : {Layout::row_major, Layout::nhwc}) {
      options.bias = bias;
      Layer variant = layer;
      variant.bias = bias;
      variant.layout = layout;
      const auto kernel = cpu::convolution_f64(options);
      const auto reference = reference::convolution(options);
      variant.expect_the_references(*kernel, *reference);
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, F64Convolution, testing::ValuesIn(convolutions));

TEST(F64Linear, AgreesWithTheReferenceForAnyThreads) {
  struct Case {
    std::int64_t rows, in, out;
  };
  for (const auto& [rows, in, out] : {Case{64, 64, 10},
                                      {1, 7, 3},
                                      {5, 33, 1},
                                      {3, 1, 17},
                                      {13, 100, 149},
                                      {200, 2, 2},
                                      {130, 700, 9},
                                      {2, 1100, 300},
                                      {1100, 5, 70}})
    for (const bool bias : {true, false}) {
      SCOPED_TRACE(testing::Message() << rows << ": " << in << " -> " << out);
      const LinearOptions options{.in_features = in, .out_features = out, .bias = bias};
      const auto kernel = cpu::linear_f64(options);
      const auto reference = reference::linear(options);
      Layer{.x = {rows, in}, .y = {rows, out}, .weight = {out, in}, .bias = bias}
          .expect_the_references(*kernel, *reference);
    }
}

/// Of the kernel table, on one thread and more; `reference` is the same kernel in plain loops.
template <class Kernel, class Reference>
void expect_the_references(const Kernel& kernel, const Reference& reference) {
  const std::vector<Tensor> found = kernel(Stream{.threads = 1}), expected = reference(Stream{});
  ASSERT_EQ(found.size(), expected.size());
  const auto compare = [&](const std::vector<Tensor>& some, const std::vector<Tensor>& others,
                           double bound) {
    for (std::size_t i = 0; i < some.size(); ++i) {
      ASSERT_EQ(some[i].defined(), others[i].defined()) << "result " << i;
      if (some[i].defined()) {
        EXPECT_LE(difference(some[i], others[i]), bound) << "result " << i;
      }
    }
  };
  compare(found, expected, 1e-12);
  for (const int threads : {2, 5}) {
    SCOPED_TRACE(testing::Message() << threads << " threads");
    compare(kernel(Stream{.threads = threads}), found, 0);
  }
}

/// The reference.
constexpr KernelTable plain{
#define TROUPE_KERNEL(name, signature) .name = reference::name,
#include "ops/kernel_list.inc"
};

struct Images {
  Shape shape;
  Layout layout;
};
// Planes of several pieces of a sum among them.
const Images images[] = {{{3, 5, 7, 9}, Layout::row_major},  {{2, 3, 100, 101}, Layout::row_major},
                         {{1, 32, 40, 30}, Layout::nchw16c}, {{64, 16, 28, 28}, Layout::row_major},
                         {{2, 3, 100, 101}, Layout::nhwc},   {{5, 17, 6, 3}, Layout::nhwc},
                         {{3, 32, 7, 7}, Layout::nchw16c},   {{700, 33, 1, 1}, Layout::row_major}};

TEST(F64Norms, AgreeWithTheReferenceForAnyThreads) {
  const KernelTable& table = kernels({}, DType::f64);
  const RandomKey key{.seed = 5, .operation = 1};
  for (const auto& [shape, layout] : images) {
    SCOPED_TRACE(testing::Message() << to_string(shape) << " in " << name_of(layout));
    const auto image = [&, layout = layout, shape = shape](unsigned seed) {
      return reference::in_layout(random(shape, seed), layout);
    };
    const Tensor x = image(1), grad = image(2), residual = image(3);
    const Tensor weight = random(Shape{shape[1]}, 4), bias = random(Shape{shape[1]}, 5);
    const ChannelMoments moments = moments_by(reference::channel_moments, {}, x);
    expect_the_references(
        [&](const Stream& stream) {
          const ChannelMoments m = moments_by(table.channel_moments, stream, x);
          return std::vector{m.mean, m.variance};
        },
        [&](const Stream&) {
          return std::vector{moments.mean, moments.variance};
        });
    for (const NormEpilogue& epilogue :
         {NormEpilogue{}, NormEpilogue{.relu = true},
          NormEpilogue{.relu = true, .dropout = 0.3, .random = key},
          NormEpilogue{.relu = true, .residual = residual},
          NormEpilogue{.relu = true, .residual = residual, .residual_first = true}})
      for (const bool batch_moments : {true, false}) {
        const auto with = [&](const auto& norm, const auto& backward) {
          return [&](const Stream& stream) {
            const Tensor z = norm(stream, x, weight, bias, moments, 1e-5, epilogue);
            const NormGradients g = gradients_by(backward, stream, grad, x, z, weight, bias,
                                                 moments, 1e-5, epilogue, batch_moments);
            return std::vector{z, g.x, g.weight, g.bias, g.residual};
          };
        };
        expect_the_references(with(table.batch_norm, table.batch_norm_backward),
                              with(reference::batch_norm, reference::batch_norm_backward));
      }
  }
}

// The variance is that of the deviations, whatever the mean of each channel.
TEST(F64Norms, MomentsSurviveLargeMeans) {
  for (const auto& [shape, layout] : images) {
    Tensor x = random(shape, 1);
    const std::int64_t plane = shape[2] * shape[3];
    for (std::int64_t i = 0; i < x.element_count(); ++i)
      x.data<double>()[i] += 1e6 * static_cast<double>(i / plane % shape[1] + 1);
    x = reference::in_layout(x, layout);
    const ChannelMoments found = moments_by(kernels({}, DType::f64).channel_moments, {}, x),
                         expected = moments_by(reference::channel_moments, {}, x);
    EXPECT_LT(difference(found.mean, expected.mean), 1e-13);
    EXPECT_LT(difference(found.variance, expected.variance), 1e-9);
  }
}

TEST(F64Norms, OneChannelThatIsNotANumberLeavesTheOthersAlone) {
  for (const auto& [shape, layout] : images) {
    Tensor x = random(shape, 1);
    x.data<double>()[0] = NAN;
    const ChannelMoments moments =
        moments_by(kernels({}, DType::f64).channel_moments, {}, reference::in_layout(x, layout));
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      EXPECT_EQ(std::isnan(moments.mean.data<double>()[c]), c == 0) << c;
      EXPECT_EQ(std::isnan(moments.variance.data<double>()[c]), c == 0) << c;
    }
  }
}

TEST(F64Products, AgreeWithTheReferenceForAnyThreads) {
  const KernelTable& table = kernels({}, DType::f64);
  struct Case {
    Shape a, b, y;
    MatmulOptions options;
  };
  for (const auto& [a_shape, b_shape, y_shape, options] :
       {Case{{7, 5}, {5, 9}, {7, 9}, {}}, Case{{3, 33, 65}, {3, 65, 20}, {3, 33, 20}, {}},
        Case{{2, 65, 33}, {1, 65, 20}, {2, 33, 20}, {.transposed_a = true}},
        Case{{200, 600}, {70, 600}, {200, 70}, {.transposed_b = true}},
        Case{{1100, 9}, {6, 1100}, {9, 6}, {.transposed_a = true, .transposed_b = true}},
        Case{{4, 30, 8}, {4, 30, 5}, {8, 5}, {.transposed_a = true}},
        Case{{3, 0}, {0, 5}, {3, 5}, {}}, Case{{0, 4}, {4, 5}, {0, 5}, {}}}) {
    SCOPED_TRACE(testing::Message() << to_string(a_shape) << " times " << to_string(b_shape));
    const Tensor a = random(a_shape, 1), b = random(b_shape, 2);
    const auto product = [&, y_shape = y_shape, options = options](const auto& matmul) {
      return [&, y_shape, options](const Stream& stream) {
        return std::vector{matmul(stream, a, b, options, y_shape)};
      };
    };
    expect_the_references(product(table.matmul), product(reference::matmul));
  }
}

// Short sequences, whose shares are kept, and long ones of several blocks, whose shares are
// computed again.
TEST(F64Attention, AgreesWithTheReferenceForAnyThreads) {
  const KernelTable& table = kernels({}, DType::f64);
  struct Case {
    Shape q, k, v, mask;
    bool causal;
  };
  for (const auto& [q_shape, k_shape, v_shape, mask_shape, causal] :
       {Case{{3, 2, 5, 8}, {3, 2, 7, 8}, {3, 2, 7, 3}, {}, false},
        Case{{2, 65, 64}, {2, 65, 64}, {2, 65, 64}, {65, 65}, true},
        Case{{2, 300, 4}, {2, 310, 4}, {2, 310, 5}, {2, 1, 310}, false},
        Case{{1, 17, 16}, {1, 17, 16}, {1, 17, 16}, {}, true},
        Case{{2, 3, 0}, {2, 4, 0}, {2, 4, 5}, {}, false},
        Case{{2, 3, 4}, {2, 0, 4}, {2, 0, 5}, {}, false}}) {
    SCOPED_TRACE(testing::Message() << to_string(q_shape) << " and " << to_string(k_shape));
    const Tensor q = random(q_shape, 1), k = random(k_shape, 2), v = random(v_shape, 3);
    const Tensor mask = mask_shape.rank() == 0 ? Tensor() : random(mask_shape, 4);
    const AttentionOptions options{.causal = causal, .scale = 0.3};
    const auto attended = [&](const auto& attention, const auto& backward) {
      return [&](const Stream& stream) {
        const AttentionOutput output = attention(stream, q, k, v, mask, options);
        const AttentionGradients g =
            backward(stream, random(output.y.shape(), 5), q, k, v, mask, output, options);
        return std::vector{output.y, g.q, g.k, g.v};
      };
    };
    expect_the_references(attended(table.attention, table.attention_backward),
                          attended(reference::attention, reference::attention_backward));
  }
}

// Of several parts, the last one shorter than the others.
TEST(F64Parts, AgreeWithTheReferenceForAnyThreads) {
  const KernelTable& table = kernels({}, DType::f64);
  const Shape shape{3, 16, 37, 11};
  for (const Layout layout : {Layout::row_major, Layout::nhwc}) {
    const auto tensor = [&](unsigned seed) {
      return reference::in_layout(random(shape, seed), layout);
    };
    const Tensor a = tensor(1), b = tensor(2), channel = random({1, 16, 1, 1}, 3);
    const auto combined = [&](const KernelTable& with) {
      return [&](const Stream& stream) {
        Tensor sum = a.clone();
        with.accumulate(stream, sum, b);
        return std::vector{
            sum,
            with.arithmetic(stream, ArithmeticOperation::divide, a, b),
            with.arithmetic(stream, ArithmeticOperation::multiply, a, channel),
            with.activate(stream, ActivationFunction::gelu, a),
            with.activate_backward(stream, ActivationFunction::silu, a, b),
        };
      };
    };
    expect_the_references(combined(table), combined(plain));
  }
}

TEST(F64Parts, OfOptimizersAreTheReferences) {
  const Shape size{5003};
  const Tensor weights = random(size, 1), gradient = random(size, 2), average = random(size, 3);
  Tensor squares = random(size, 4);
  for (double& square : squares.elements<double>()) square *= square;
  const auto empty = [&] { return Tensor::empty(size, DType::f64, Device::cpu()); };
  const auto stepped = [&](const KernelTable& with) {
    return [&](const Stream& stream) {
      std::vector<Tensor> results;
      for (const Tensor& before : {Tensor(), average}) {
        Tensor next = empty(), momentum = empty();
        with.momentum_step(stream,
                           {{{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
                             weights,
                             gradient,
                             before,
                             next,
                             momentum}});
        results.insert(results.end(), {next, momentum});
        Tensor adam = empty(), new_average = empty(), new_squares = empty();
        with.adam_step(stream, {{{.lr = 0.1, .weight_decay = 0.01},
                                 weights,
                                 gradient,
                                 before,
                                 before.defined() ? squares : Tensor(),
                                 adam,
                                 new_average,
                                 new_squares}});
        results.insert(results.end(), {adam, new_average, new_squares});
      }
      const Tensor next = empty();
      with.momentum_step(stream, {{{.lr = 0.1}, weights, gradient, {}, next, {}}});
      results.push_back(next);
      return results;
    };
  };
  expect_the_references(stepped(kernels({}, DType::f64)), stepped(plain));
}

TEST(F64Parts, OfLayerNormsAgreeWithTheReference) {
  for (const Shape& shape : {Shape{3, 71, 1}, {3, 71, 65}, {3, 71, 5000}, {3, 0, 65}, {3, 71, 0}})
    for (const bool scaled : {true, false}) {
      const std::int64_t features = shape[2];
      const Tensor x = random(shape, 1), grad = random(shape, 2);
      const Tensor weight = scaled ? random(Shape{features}, 3) : Tensor(),
                   bias = scaled ? random(Shape{features}, 4) : Tensor();
      const auto normalised = [&](const KernelTable& with) {
        return [&](const Stream& stream) {
          const LayerNormOutput output = with.layer_norm(stream, x, weight, bias, features, 1e-5);
          const NormGradients g =
              with.layer_norm_backward(stream, grad, x, weight, output, features);
          return std::vector{output.y, output.mean, output.inverse_deviation,
                             g.x,      g.weight,    g.bias};
        };
      };
      expect_the_references(normalised(kernels({}, DType::f64)), normalised(plain));
    }
}

// A token that sees no key gets zeroes; one that sees a key that is not a number gets such numbers.
TEST(F64Attention, TreatsInfiniteAndUndefinedScoresAsTheReference) {
  const Tensor q = random({1, 3, 4}, 1), k = random({1, 2, 4}, 2), v = random({1, 2, 5}, 3);
  Tensor mask = Tensor::empty({3, 2}, DType::f64, Device::cpu());
  const double numbers[] = {-INFINITY, -INFINITY, 0, -INFINITY, NAN, 0};
  std::ranges::copy(numbers, mask.data<double>());
  const Tensor y = kernels({}, DType::f64).attention({}, q, k, v, mask, {.scale = 0.5}).y;
  const Tensor expected = reference::attention({}, q, k, v, mask, {.scale = 0.5}).y;
  for (std::int64_t i = 0; i < 10; ++i)
    EXPECT_NEAR(y.data<double>()[i], expected.data<double>()[i], 1e-12);
  for (std::int64_t i = 10; i < 15; ++i) {
    EXPECT_TRUE(std::isnan(y.data<double>()[i]));
    EXPECT_TRUE(std::isnan(expected.data<double>()[i]));
  }
}

// As in PyTorch, so that an undefined number ends in an undefined loss, not in a wrong gradient.
TEST(F64Relu, PassesGradientsOfUndefinedNumbers) {
  Tensor y = Tensor::empty({4}, DType::f64, Device::cpu());
  std::ranges::copy(std::array{double{NAN}, -1.0, 0.0, 2.0}, y.data<double>());
  Tensor grad = Tensor::empty({4}, DType::f64, Device::cpu());
  std::ranges::fill(grad.elements<double>(), 3.0);
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x_grad = kernels({}, dtype).relu_backward({}, cast(y, dtype), cast(grad, dtype));
    EXPECT_THAT(cast(x_grad, DType::f64).elements<double>(),
                testing::ElementsAre(3.0, 0.0, 0.0, 3.0));
  }
}

// As a layer in training has them.
TEST(Norms, WriteStatisticsAndGradientsWhereTheyAreTold) {
  const Tensor x = random({4, 3, 5, 3}, 1), grad = random(x.shape(), 2);
  const Tensor weight = random({3}, 3), bias = random({3}, 4);
  for (const DType dtype : {DType::f64, DType::f32}) {
    const KernelTable& table = kernels({}, dtype);
    const auto in = [&](const Tensor& tensor) { return cast(tensor, dtype); };
    const auto empty = [&] { return Tensor::empty({3}, dtype, Device::cpu()); };
    Tensor mean = empty(), variance = empty(), weight_gradient = empty(), bias_gradient = empty();
    const ChannelMoments moments =
        table.channel_moments({}, in(x), in(weight), in(bias), 1e-5, mean, variance);
    const auto values = [](const Tensor& t) {
      const Tensor doubles = cast(t, DType::f64);
      const auto elements = doubles.elements<double>();
      return std::vector<double>(elements.begin(), elements.end());
    };
    EXPECT_EQ(values(mean), values(moments.mean));
    for (std::size_t c = 0; c < 3; ++c)
      EXPECT_NEAR(values(variance)[c], values(moments.variance)[c] * 60 / 59, 1e-6);
    const Tensor z = table.batch_norm({}, in(x), in(weight), in(bias), moments, 1e-5, {});
    const NormGradients found =
        table.batch_norm_backward({}, in(grad), in(x), z, in(weight), in(bias), moments, 1e-5, {},
                                  true, weight_gradient, bias_gradient);
    const NormGradients made = gradients_by(table.batch_norm_backward, {}, in(grad), in(x), z,
                                            in(weight), in(bias), moments, 1e-5, {}, true);
    EXPECT_EQ(found.weight.raw(), weight_gradient.raw());
    EXPECT_EQ(values(weight_gradient), values(made.weight));
    EXPECT_EQ(values(bias_gradient), values(made.bias));
  }
}

/// A table's batch norm, forward and backward.
struct NormKernels {
  decltype(KernelTable::batch_norm) forward;
  decltype(KernelTable::batch_norm_backward) backward;
};

// With fixed moments, so that x itself does not reach the bias's gradient.
TEST(Norms, PassGradientsOfUndefinedNumbersThroughTheirRelu) {
  const Tensor weight = random({3}, 1), bias = random({3}, 2), grad = random({2, 3, 5, 7}, 3);
  const Tensor residual = random(grad.shape(), 4);
  const ChannelMoments moments =
      moments_by(reference::channel_moments, {}, random(grad.shape(), 5));
  Tensor x = random(grad.shape(), 5), changed = random(grad.shape(), 3);
  x.data<double>()[0] = NAN;
  changed.data<double>()[0] += 1;
  const NormKernels plain{reference::batch_norm, reference::batch_norm_backward};
  const auto of_table = [](DType dtype) {
    return NormKernels{kernels({}, dtype).batch_norm, kernels({}, dtype).batch_norm_backward};
  };
  for (const auto& [norm, dtype] : {std::pair{plain, DType::f64},
                                    {of_table(DType::f64), DType::f64},
                                    {of_table(DType::f32), DType::f32}})
    for (const NormEpilogue& epilogue :
         {NormEpilogue{.relu = true}, NormEpilogue{.relu = true, .dropout = 0.01},
          NormEpilogue{.relu = true, .residual = cast(residual, dtype), .residual_first = true}}) {
      const auto gradients = [&, norm = norm, dtype = dtype](const Tensor& y_grad) {
        const auto in = [&](const Tensor& tensor) { return cast(tensor, dtype); };
        const ChannelMoments m{in(moments.mean), in(moments.variance)};
        const Tensor z = norm.forward({}, in(x), in(weight), in(bias), m, 1e-5, epilogue);
        EXPECT_TRUE(std::isnan(cast(z, DType::f64).data<double>()[0]));
        return gradients_by(norm.backward, {}, in(y_grad), in(x), z, in(weight), in(bias), m, 1e-5,
                            epilogue, false);
      };
      const NormGradients before = gradients(grad), after = gradients(changed);
      const auto first = [](const Tensor& t) { return cast(t, DType::f64).data<double>()[0]; };
      EXPECT_NEAR(first(after.bias) - first(before.bias), 1 / (1 - epilogue.dropout), 1e-5);
      if (epilogue.relu_of_sum()) {
        EXPECT_NEAR(first(after.residual), first(changed), 1e-6);
      }
    }
}

/// Attention of one query and `keys` keys, of several tokens, with such a mask [1, keys].
void expect_nan(DType dtype, std::int64_t tokens, const Tensor& mask) {
  const std::int64_t keys = mask.shape()[1];
  const auto given = [&](const Shape& shape) { return cast(random(shape, 1), dtype); };
  const Tensor q = given({1, tokens, 4}), k = given({1, keys, 4}), v = given({1, keys, 3});
  const Tensor hides = cast(mask, dtype);
  const KernelTable& table = kernels({}, dtype);
  const AttentionOutput output = table.attention({}, q, k, v, hides, {});
  const AttentionGradients g =
      table.attention_backward({}, given({1, tokens, 3}), q, k, v, hides, output, {});
  for (const Tensor& result : {output.y, g.q, g.k, g.v})
    for (const double value : cast(result, DType::f64).elements<double>())
      EXPECT_TRUE(std::isnan(value)) << tokens << " tokens, " << keys << " keys";
}

// Of any key, with the others hidden or not; with shares that are kept or computed again.
TEST(Attention, GivesNoNumbersToTokensThatSeeAKeyWithout) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t keys : {1, 5, 8, 16, 20})
      for (std::int64_t bad = 0; bad < keys; ++bad)
        for (const double others : {0.0, -double{INFINITY}}) {
          Tensor mask = Tensor::empty({1, keys}, DType::f64, Device::cpu());
          std::ranges::fill(mask.elements<double>(), others);
          mask.data<double>()[bad] = NAN;
          expect_nan(dtype, 1, mask);
          expect_nan(dtype, 30, mask);
        }
}

TEST(F64Dropout, AgreesWithTheReferenceForAnyThreads) {
  const RandomKey key{.seed = 5, .operation = 1};
  for (const auto& [shape, layout] : images) {
    SCOPED_TRACE(testing::Message() << to_string(shape) << " in " << name_of(layout));
    const Tensor x = reference::in_layout(random(shape, 1), layout);
    const auto dropped = [&](const KernelTable& with) {
      return [&](const Stream& stream) { return std::vector{with.dropout(stream, x, 0.9, key)}; };
    };
    expect_the_references(dropped(kernels({}, DType::f64)), dropped(plain));
  }
}

TEST(F64MaxPool, AgreesWithTheReferenceForAnyThreads) {
  const PoolOptions square{.kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2},
      wide{.kernel_h = 3,
           .kernel_w = 3,
           .stride_h = 2,
           .stride_w = 2,
           .padding_h = 1,
           .padding_w = 1};
  for (const auto& [shape, layout] : images) {
    SCOPED_TRACE(testing::Message() << to_string(shape) << " in " << name_of(layout));
    const Tensor x = reference::in_layout(random(shape, 1), layout);
    if (shape[2] == 1) continue;
    for (const PoolOptions& options : {square, wide}) {
      const auto pooled = [&](const KernelTable& with) {
        return [&](const Stream& stream) {
          const Tensor y = with.max_pool(stream, x, options);
          const Tensor grad = reference::in_layout(random(y.shape(), 2), y.layout());
          return std::vector{y, with.max_pool_backward(stream, grad, x, options)};
        };
      };
      expect_the_references(pooled(kernels({}, DType::f64)), pooled(plain));
    }
  }
}

TEST(F64Convolution, TakesNewWeightsWithANewVersion) {
  const auto kernel = cpu::convolution_f64(
      {.in_channels = 1, .out_channels = 1, .kernel_h = 1, .kernel_w = 1, .bias = false});
  const Shape one{1, 1, 1, 1};
  const Tensor x = random(one, 1);
  for (const std::uint64_t version : {1, 2}) {
    const Tensor weight = random(one, 10 + static_cast<unsigned>(version));
    const double w = *weight.data<double>(), v = *x.data<double>();
    kernel->use_weights({}, weight, {}, version);
    EXPECT_EQ(*kernel->forward({}, x).data<double>(), v * w);
    EXPECT_EQ(*kernel->input_gradient({}, x, one, Layout::row_major).data<double>(), v * w);
  }
}

TEST(F64Convolution, RefusesImagesThatDoNotFit) {
  const auto kernel = cpu::convolution_f64({.in_channels = 3, .out_channels = 2});
  kernel->use_weights({}, random({2, 3, 3, 3}, 1), random(Shape{2}, 2), 1);
  for (const Shape& shape : {Shape{1, 2, 8, 8}, {1, 3, 2, 8}, {0, 3, 8, 8}})
    EXPECT_THROW(kernel->forward({}, Tensor::empty(shape, DType::f64, Device::cpu())), Error)
        << to_string(shape);
}

}  // namespace
}  // namespace troupe
