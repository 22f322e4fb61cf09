#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <set>
#include <thread>

#include "convolution_oracle.h"
#include "ops/cpu/convolution_rule.h"
#include "ops/cpu/kernels.h"
#include "runtime/error.h"

namespace troupe {
namespace {

using oracle::Values;
using testing::HasSubstr;

/// A convolution with random tensors, and all that should come out of it.
struct Problem {
  ConvolutionOptions options;
  Shape x_shape;
  Shape y_shape = oracle::output_shape(options, x_shape);
  Shape w_shape = weight_shape(options);
  Values x = oracle::random_values(x_shape.element_count(), 1);
  Values w = oracle::random_values(w_shape.element_count(), 2);
  Values b = oracle::random_values(options.out_channels, 3);
  Values y_grad = oracle::random_values(y_shape.element_count(), 4);
};

/// What should come out, in row-major order.
struct Expected {
  Values y, x_grad, w_grad, b_grad;
};

Expected expected_of(const Problem& p) {
  Expected e{Values(p.y_grad.size()), Values(p.x.size()), Values(p.w.size()), {}};
  const auto pixels = static_cast<std::size_t>(p.y_shape[2] * p.y_shape[3]);
  if (p.options.bias) {
    for (std::size_t i = 0; i < e.y.size(); ++i) e.y[i] = p.b[i / pixels % p.b.size()];
    e.b_grad = oracle::channel_sums(p.y_grad, p.y_shape);
  }
  oracle::for_each_product(p.options, p.x_shape,
                           [&](std::size_t xi, std::size_t wi, std::size_t yi) {
                             e.y[yi] += p.x[xi] * p.w[wi];
                             e.x_grad[xi] += p.y_grad[yi] * p.w[wi];
                             e.w_grad[wi] += p.y_grad[yi] * p.x[xi];
                           });
  return e;
}

/// What the kernel made of a problem.
struct Outcome {
  Tensor y, x_grad, w_grad, b_grad;
};

Outcome compute(LayerKernel& kernel, const Stream& stream, const Problem& problem, Layout x_layout,
                Layout y_layout) {
  const Tensor w = oracle::to_tensor(problem.w_shape, problem.w);
  const Tensor b = problem.options.bias
                       ? oracle::to_tensor({problem.options.out_channels}, problem.b)
                       : Tensor();
  const Tensor x = oracle::to_tensor(problem.x_shape, problem.x, x_layout);
  const Tensor grad = oracle::to_tensor(problem.y_shape, problem.y_grad, y_layout);
  Outcome outcome;
  kernel.use_weights(stream, w, b, 1);
  outcome.y = kernel.forward(stream, x);
  outcome.x_grad = kernel.input_gradient(stream, grad, problem.x_shape, x_layout);
  outcome.w_grad = Tensor::empty(problem.w_shape, DType::f32, Device::cpu());
  if (problem.options.bias)
    outcome.b_grad = Tensor::empty({problem.options.out_channels}, DType::f32, Device::cpu());
  kernel.weight_gradient(stream, x, grad, outcome.w_grad, outcome.b_grad);
  return outcome;
}

void expect_close(const Tensor& found, const Values& expected, double tolerance) {
  EXPECT_LT(oracle::relative_difference(oracle::to_values(found), expected), tolerance);
}

void expect_right(const Problem& problem, const Expected& expected, const Outcome& outcome,
                  double tolerance) {
  SCOPED_TRACE(cpu::describe(problem.options) + " of " + to_string(problem.x_shape));
  expect_close(outcome.y, expected.y, tolerance);
  expect_close(outcome.x_grad, expected.x_grad, tolerance);
  expect_close(outcome.w_grad, expected.w_grad, tolerance);
  if (problem.options.bias) expect_close(outcome.b_grad, expected.b_grad, tolerance);
}

ConvolutionOptions square(std::int64_t in, std::int64_t out, std::int64_t kernel,
                          std::int64_t stride, std::int64_t padding, bool bias = true) {
  return {.in_channels = in,
          .out_channels = out,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .padding_h = padding,
          .padding_w = padding,
          .bias = bias};
}

/// The same, with groups and a distance between the kernel's elements.
ConvolutionOptions grouped(ConvolutionOptions options, std::int64_t groups,
                           std::int64_t dilation = 1) {
  options.groups = groups;
  options.dilation_h = options.dilation_w = dilation;
  return options;
}

ConvolutionOptions padded(ConvolutionOptions options, std::int64_t h, std::int64_t w) {
  options.padding_h = h;
  options.padding_w = w;
  return options;
}
ConvolutionOptions strided(ConvolutionOptions options, std::int64_t h, std::int64_t w) {
  options.stride_h = h;
  options.stride_w = w;
  return options;
}
ConvolutionOptions dilated(ConvolutionOptions options, std::int64_t h, std::int64_t w) {
  options.dilation_h = h;
  options.dilation_w = w;
  return options;
}

// NOLINTNEXTLINE(readability-function-size): a list
std::vector<Problem> problems() {
  return {
      {grouped(square(16, 16, 3, 1, 1), 16), {3, 16, 9, 8}},
      {grouped(square(48, 48, 3, 2, 1), 48), {2, 48, 9, 11}},
      {grouped(square(24, 24, 5, 1, 2, false), 24), {2, 24, 7, 6}},
      {grouped(square(5, 5, 3, 1, 1), 5), {2, 5, 6, 9}},
      {grouped(square(32, 32, 3, 1, 2), 32, 2), {2, 32, 8, 7}},
      {grouped(square(40, 40, 3, 2, 1), 40), {2, 40, 1, 2}},
      {grouped(square(32, 32, 5, 2, 2), 32), {3, 32, 9, 10}},
      {grouped(square(16, 16, 7, 1, 3), 16), {9, 16, 8, 8}},
      {grouped(square(20, 20, 4, 1, 2), 20), {2, 20, 6, 5}},
      {grouped(square(16, 16, 5, 1, 2), 16), {2, 16, 1, 2}},
      {grouped(square(17, 17, 3, 2, 3, false), 17, 3), {2, 17, 7, 4}},
      {{.in_channels = 16,
        .out_channels = 16,
        .kernel_h = 3,
        .kernel_w = 3,
        .padding_h = 3,
        .padding_w = 3,
        .dilation_h = 2,
        .dilation_w = 3,
        .groups = 16},
       {2, 16, 9, 10}},
      {{.in_channels = 16,
        .out_channels = 16,
        .kernel_h = 5,
        .kernel_w = 5,
        .stride_h = 2,
        .stride_w = 1,
        .padding_h = 2,
        .padding_w = 2,
        .groups = 16},
       {2, 16, 9, 10}},
      {grouped(square(16, 32, 3, 1, 1), 16), {2, 16, 5, 6}},
      {grouped(square(32, 32, 3, 1, 1), 2), {2, 32, 7, 7}},
      {grouped(square(64, 64, 3, 2, 1), 16), {2, 64, 6, 7}},
      {grouped(square(6, 9, 3, 1, 0), 3), {2, 6, 5, 5}},
      {grouped(square(32, 16, 1, 1, 0), 4), {2, 32, 4, 4}},
      {grouped(square(16, 32, 3, 1, 2), 1, 2), {2, 16, 9, 8}},
      {grouped(square(3, 5, 2, 2, 1, false), 1, 3), {2, 3, 9, 8}},
      {square(1, 16, 3, 1, 1), {4, 1, 9, 7}},
      {square(3, 16, 3, 1, 1), {2, 3, 8, 8}},
      {square(1, 16, 5, 1, 0), {3, 1, 12, 12}},
      {square(16, 32, 5, 1, 2), {2, 16, 7, 7}},
      {square(16, 16, 3, 1, 1), {3, 16, 14, 14}},
      {square(16, 32, 3, 2, 1), {2, 16, 9, 11}},
      {square(16, 32, 1, 2, 0), {2, 16, 9, 8}},
      {square(2, 2, 1, 2, 0), {4, 2, 12, 12}},  // oneDNN errs where channels fill no vector
      {square(1, 3, 1, 2, 0), {3, 1, 40, 40}},
      // oneDNN errs in bf16 where images are smaller than the stride
      {square(8, 8, 3, 4, 2), {2, 8, 5, 2}},
      {padded(strided(square(16, 16, 2, 1, 0), 1, 3), 1, 1), {2, 16, 5, 2}},
      // and of some dilated kernels
      {grouped(square(8, 16, 3, 1, 2), 2, 2), {2, 8, 32, 32}},
      {dilated(grouped(padded(square(12, 18, 3, 1, 0), 2, 0), 3), 2, 1), {2, 12, 32, 32}},
      {dilated(grouped(square(24, 54, 1, 1, 0), 6), 4, 1), {1, 24, 35, 38}},
      {padded(dilated(square(24, 8, 5, 1, 0), 3, 1), 6, 2), {11, 24, 29, 33}},
      // and of 1x1 kernels with an odd number of results
      {square(16, 15, 1, 1, 0), {1, 16, 6, 10}},
      {strided(square(32, 3, 1, 1, 0), 2, 1), {1, 32, 9, 30}},
      // and, with AMX, of kernels that skip rows
      {square(192, 64, 2, 4, 0), {2, 192, 17, 33}},
      {padded(square(96, 48, 1, 2, 0), 0, 1), {1, 96, 26, 26}},
      {strided(square(64, 32, 2, 1, 0), 4, 1), {2, 64, 19, 19}},
      {square(5, 4, 1, 3, 0, false), {2, 5, 33, 32}},
      {square(12, 16, 1, 2, 0), {2, 12, 32, 32}},
      {square(32, 48, 1, 1, 0), {2, 32, 5, 5}},
      {square(5, 7, 3, 1, 1), {2, 5, 6, 9}},
      {square(20, 16, 3, 1, 1), {2, 20, 6, 6}},
      {square(16, 10, 3, 1, 0), {2, 16, 7, 6}},
      {square(3, 6, 2, 3, 0), {1, 3, 11, 8}},
      {square(64, 64, 3, 1, 1), {5, 64, 7, 7}},
      {square(2, 4, 7, 2, 3, false), {2, 2, 13, 13}},
      {square(16, 16, 3, 1, 1, false), {1, 16, 1, 1}},
      {square(8, 1, 3, 1, 2), {2, 8, 4, 4}},
      {square(8, 8, 1, 1, 0), {8, 8, 1, 1}},  // input and output have the shape of the weights
      {square(16, 16, 3, 1, 1), {16, 16, 3, 3}},
      {{.in_channels = 16,
        .out_channels = 16,
        .kernel_h = 1,
        .kernel_w = 3,
        .stride_h = 2,
        .stride_w = 1,
        .padding_h = 0,
        .padding_w = 2},
       {2, 16, 5, 6}},
  };
}

/// How far sums of numbers that are rounded to bf16 (8 bits) lie from those of f32.
constexpr double bf16_tolerance = 0.01;

std::vector<Layout> possible_layouts(const Shape& shape) {
  std::vector<Layout> layouts{Layout::row_major, Layout::nhwc};
  if (shape[1] % 16 == 0) layouts.push_back(Layout::nchw16c);
  return layouts;
}

TEST(Convolution, RoundsProductsToBf16InAllDirectionsAndLayouts) {
  if (!cpu::has_bf16()) GTEST_SKIP() << "this processor has no instructions for bf16";
  for (const Problem& problem : problems()) {
    const Expected expected = expected_of(problem);
    for (Layout x_layout : possible_layouts(problem.x_shape))
      for (Layout y_layout : possible_layouts(problem.y_shape)) {
        const auto kernel = cpu::convolution(problem.options);
        const Outcome rounded =
            compute(*kernel, {.products = DType::bf16}, problem, x_layout, y_layout);
        expect_right(problem, expected, rounded, bf16_tolerance);
        EXPECT_EQ(rounded.y.dtype(), DType::f32);
        EXPECT_EQ(rounded.x_grad.layout(), x_layout);
      }
  }
}

// The sums are those of the rounded numbers, in f32.
TEST(Convolution, SumsProductsOfBf16InF32) {
  if (!cpu::has_bf16()) GTEST_SKIP() << "this processor has no instructions for bf16";
  Problem problem{square(32, 32, 3, 1, 1), {2, 32, 9, 8}};
  for (Values* values : {&problem.x, &problem.w, &problem.y_grad})
    for (double& value : *values) value = std::round(value * 16) / 16;  // fit into bf16's 8 bits
  const auto kernel = cpu::convolution(problem.options);
  expect_right(
      problem, expected_of(problem),
      compute(*kernel, {.products = DType::bf16}, problem, Layout::nchw16c, Layout::nchw16c), 3e-6);
}

TEST(Convolution, TakesBothTypesOfProductsInTurn) {
  if (!cpu::has_bf16()) GTEST_SKIP() << "this processor has no instructions for bf16";
  const Problem problem{square(16, 16, 3, 1, 1), {2, 16, 8, 8}};
  const auto kernel = cpu::convolution(problem.options);
  const auto bits = [&](DType products) {
    return oracle::to_values(
        compute(*kernel, {.products = products}, problem, Layout::nchw16c, Layout::nchw16c).y);
  };
  const Values exact = bits(DType::f32), rounded = bits(DType::bf16);
  EXPECT_NE(exact, rounded);
  EXPECT_EQ(bits(DType::f32), exact);
  EXPECT_EQ(bits(DType::bf16), rounded);
}

TEST(Convolution, AgreesWithTheFormulaInAllDirectionsAndLayouts) {
  for (const Problem& problem : problems()) {
    const Expected expected = expected_of(problem);
    for (Layout x_layout : possible_layouts(problem.x_shape))
      for (Layout y_layout : possible_layouts(problem.y_shape))
        for (int threads : {1, 2}) {
          const auto kernel = cpu::convolution(problem.options);
          const Outcome outcome =
              compute(*kernel, {.threads = threads}, problem, x_layout, y_layout);
          expect_right(problem, expected, outcome, 3e-6);
          EXPECT_EQ(outcome.x_grad.layout(), x_layout);
        }
  }
}

TEST(Convolution, AgreesWithTheFormulaByWinograd) {
  for (Problem problem : {Problem{square(16, 16, 3, 1, 1), {3, 16, 28, 28}},
                          Problem{square(32, 64, 3, 1, 1), {4, 32, 14, 14}},
                          Problem{square(64, 64, 3, 1, 1), {8, 64, 7, 7}},
                          Problem{square(160, 160, 3, 1, 0), {1, 160, 9, 10}},
                          Problem{square(48, 80, 3, 1, 2), {2, 48, 5, 11}},
                          Problem{square(16, 48, 3, 1, 1), {1, 16, 1, 2}},
                          Problem{square(16, 16, 3, 1, 1, false), {2, 16, 61, 50}},  // many tiles
                          Problem{square(192, 176, 3, 1, 1), {5, 192, 12, 12}},
                          Problem{square(80, 48, 3, 1, 1), {3, 80, 28, 28}},  // two groups of tiles
                          Problem{square(32, 128, 3, 1, 1), {65, 32, 7, 7}},  // shared tiles of two
                          Problem{square(128, 32, 3, 1, 1), {65, 128, 7, 7}},  // unequal parts
                          Problem{padded(square(48, 80, 3, 1, 1), 1, 0), {2, 48, 9, 14}},
                          Problem{padded(square(96, 160, 3, 1, 1), 0, 2), {3, 96, 7, 12}},
                          Problem{padded(square(64, 32, 3, 1, 1), 2, 1), {2, 64, 2, 12}},
                          Problem{square(16, 16, 3, 1, 3), {2, 16, 4, 4}},  // stays direct
                          Problem{strided(square(32, 32, 3, 1, 1), 1, 2), {2, 32, 8, 9}},  // direct
                          Problem{strided(square(32, 32, 3, 1, 1), 2, 1), {2, 32, 8, 9}},  // direct
                          Problem{dilated(square(32, 32, 3, 1, 1), 1, 2), {2, 32, 8, 9}},  // direct
                          Problem{dilated(square(32, 32, 3, 1, 1), 2, 1), {2, 32, 8, 9}},  // direct
                          Problem{square(16, 32, 5, 1, 2), {2, 16, 7, 7}},     // stays direct
                          Problem{square(20, 16, 3, 1, 1), {2, 20, 6, 6}}}) {  // stays direct
    problem.options.algorithm = ConvolutionAlgorithm::winograd;
    const Expected expected = expected_of(problem);
    for (int threads : {1, 2}) {
      const auto kernel = cpu::convolution(problem.options);
      expect_right(problem, expected,
                   compute(*kernel, {.threads = threads}, problem, Layout::nhwc, Layout::nhwc),
                   1e-5);
    }
  }
}

TEST(Convolution, ServesBatchesOfSeveralSizesInTurn) {
  const auto kernel = cpu::convolution(square(16, 16, 3, 1, 1));
  for (std::int64_t batch : {4, 1, 4, 3, 1}) {
    const Problem problem{square(16, 16, 3, 1, 1), {batch, 16, 8, 8}};
    expect_right(problem, expected_of(problem),
                 compute(*kernel, {}, problem, Layout::nhwc, Layout::nhwc), 3e-6);
  }
}

TEST(Convolution, TakesNewWeightsOnlyWithANewVersion) {
  const Problem problem{square(16, 16, 3, 1, 1), {2, 16, 8, 8}};
  const auto kernel = cpu::convolution(problem.options);
  const Tensor x = oracle::to_tensor(problem.x_shape, problem.x);
  const Tensor b = oracle::to_tensor({16}, Values(16, 0.0));
  const Tensor w = oracle::to_tensor(problem.w_shape, problem.w);
  Values doubled = problem.w;
  for (double& value : doubled) value *= 2;
  const Tensor w2 = oracle::to_tensor(problem.w_shape, doubled);

  kernel->use_weights({}, w, b, 7);
  const Values first = oracle::to_values(kernel->forward({}, x));
  kernel->use_weights({}, w2, b, 7);
  EXPECT_EQ(oracle::to_values(kernel->forward({}, x)), first);
  kernel->use_weights({}, w2, b, 8);
  const Values second = oracle::to_values(kernel->forward({}, x));
  ASSERT_EQ(second.size(), first.size());
  for (std::size_t i = 0; i < first.size(); ++i) ASSERT_EQ(second[i], 2 * first[i]);
}

TEST(Convolution, GivesTheSameBitsOnEveryRunAndThread) {
  for (auto algorithm : {ConvolutionAlgorithm::direct, ConvolutionAlgorithm::winograd})
    for (int threads : {1, 2, 3}) {
      Problem problem{square(32, 32, 3, 1, 1), {6, 32, 14, 14}};
      problem.options.algorithm = algorithm;
      const auto bits = [&] {
        const auto kernel = cpu::convolution(problem.options);
        std::string result;
        for (int repeat = 0; repeat < 5; ++repeat) {
          const Outcome o =
              compute(*kernel, {.threads = threads}, problem, Layout::nchw16c, Layout::nchw16c);
          std::string run;
          for (const Tensor& t : {o.y, o.x_grad, o.w_grad, o.b_grad})
            run.append(reinterpret_cast<const char*>(t.raw()), t.bytes());
          EXPECT_TRUE(repeat == 0 || run == result);
          result = run;
        }
        return result;
      };
      const std::string here = bits();
      std::vector<std::thread> others;
      std::array<std::string, 3> there;
      for (auto& result : there) others.emplace_back([&] { result = bits(); });
      for (auto& other : others) other.join();
      for (const auto& result : there) EXPECT_TRUE(result == here);
    }
}

TEST(Convolution, WritesGradientsIntoViewsOfAFlatArray) {
  const Problem problem{square(16, 32, 3, 1, 1), {2, 16, 6, 6}};
  const auto kernel = cpu::convolution(problem.options);
  const Tensor flat = Tensor::zeros({1 << 13});
  Tensor w_grad = Tensor::view(flat.storage(), 64, problem.w_shape, DType::f32);
  Tensor b_grad = Tensor::view(flat.storage(), 64 + w_grad.bytes(), {32}, DType::f32);
  kernel->weight_gradient({}, oracle::to_tensor(problem.x_shape, problem.x),
                          oracle::to_tensor(problem.y_shape, problem.y_grad), w_grad, b_grad);
  EXPECT_LT(oracle::relative_difference(oracle::to_values(w_grad), expected_of(problem).w_grad),
            3e-6);
  EXPECT_LT(oracle::relative_difference(oracle::to_values(b_grad), expected_of(problem).b_grad),
            3e-6);
  const auto all = flat.elements<float>();
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(all[i], 0);
  for (std::size_t i = 16 + problem.w.size() + 32; i < all.size(); ++i) ASSERT_EQ(all[i], 0);
}

TEST(Convolution, AllocatesNothingNewOnceItIsWarm) {
  const Problem problem{square(16, 16, 3, 1, 1), {2, 16, 8, 8}};
  const auto kernel = cpu::convolution(problem.options);
  // Twice: the kernel still holds the weights of one call while the next makes its own.
  compute(*kernel, {}, problem, Layout::nhwc, Layout::nhwc);
  compute(*kernel, {}, problem, Layout::nhwc, Layout::nhwc);
  const auto before = CachingAllocator::of({}).counters();
  compute(*kernel, {}, problem, Layout::nhwc, Layout::nhwc);
  const auto after = CachingAllocator::of({}).counters();
  EXPECT_EQ(after.allocations - before.allocations, after.reused - before.reused);
  EXPECT_EQ(after.in_use_bytes, before.in_use_bytes);
}

TEST(ConvolutionRule, AsksForWinogradOnlyWhereItWins) {
  const auto winograd = [](ConvolutionOptions options, const Shape& x,
                           ConvolutionAlgorithm algorithm) {
    options.algorithm = algorithm;
    return cpu::convolution_paths(options, x, cpu::ConvolutionDirection::forward).front().winograd;
  };
  const auto automatic = ConvolutionAlgorithm::automatic;
  const auto wide = square(160, 160, 3, 1, 1);
  const bool possible = winograd(wide, {16, 160, 32, 32}, ConvolutionAlgorithm::winograd);
  EXPECT_EQ(winograd(wide, {16, 160, 32, 32}, automatic), possible);
  EXPECT_EQ(winograd(square(64, 64, 3, 1, 1), {64, 64, 7, 7}, automatic), possible);
  EXPECT_FALSE(winograd(wide, {16, 160, 5, 5}, automatic));
  EXPECT_FALSE(winograd(square(64, 64, 3, 1, 1), {4, 64, 7, 7}, automatic));
  EXPECT_FALSE(winograd(wide, {16, 160, 32, 32}, ConvolutionAlgorithm::direct));
  EXPECT_FALSE(winograd(square(160, 160, 3, 2, 1), {16, 160, 32, 32}, automatic));
  EXPECT_FALSE(winograd(square(64, 64, 5, 1, 2), {8, 64, 9, 9}, ConvolutionAlgorithm::winograd));
}

TEST(ConvolutionRule, PrefersWinogradInF32ToLargeDirectConvolutionsInBf16WithoutAmx) {
  const auto first = [](std::int64_t channels, const Shape& x, bool amx = false) {
    return cpu::convolution_paths(square(channels, channels, 3, 1, 1), x,
                                  cpu::ConvolutionDirection::forward, DType::bf16,
                                  cpu::ProcessorMaker::intel, amx)
        .front();
  };
  if (!cpu::has_avx512()) GTEST_SKIP() << "this processor has no AVX-512";
  EXPECT_TRUE(first(160, {16, 160, 32, 32}).winograd);
  EXPECT_EQ(first(160, {16, 160, 32, 32}).products, DType::f32);
  EXPECT_TRUE(first(640, {16, 640, 8, 8}).winograd);
  EXPECT_FALSE(first(160, {16, 160, 32, 32}, true).winograd);
  EXPECT_FALSE(first(640, {2, 640, 8, 8}).winograd);
  EXPECT_FALSE(first(512, {32, 512, 7, 7}).winograd);
  EXPECT_FALSE(first(64, {16, 64, 32, 32}).winograd);
  EXPECT_EQ(first(64, {16, 64, 32, 32}).products, DType::bf16);
}

TEST(ConvolutionRule, KeepsWeightGradientsOfStridedPointsFromNhwcWhereChannelsFillNoVector) {
  const auto layouts = [](std::int64_t channels, std::int64_t stride) {
    std::set<Layout> found;
    for (const DType products : {DType::f32, DType::bf16})
      for (const bool amx : {false, true})
        for (const cpu::ConvolutionPath& path :
             cpu::convolution_paths(square(channels, 32, 1, stride, 0), {2, channels, 8, 8},
                                    cpu::ConvolutionDirection::weight_gradient, products,
                                    cpu::ProcessorMaker::intel, amx))
          found.insert({path.x, path.y});
    return found;
  };
  EXPECT_THAT(layouts(3, 2), testing::ElementsAre(Layout::row_major));
  EXPECT_THAT(layouts(12, 2), testing::ElementsAre(Layout::row_major));
  EXPECT_THAT(layouts(12, 1), testing::Contains(Layout::nhwc));
  EXPECT_THAT(layouts(16, 2), testing::Contains(Layout::nhwc));
}

TEST(ConvolutionRule, ChoosesNhwcInBf16WithAmxUnlessWinogradIsDemanded) {
  const auto first = [](ConvolutionAlgorithm algorithm, DType products) {
    ConvolutionOptions options = square(64, 64, 3, 1, 1);
    options.algorithm = algorithm;
    return cpu::convolution_paths(options, {16, 64, 32, 32}, cpu::ConvolutionDirection::forward,
                                  products, cpu::ProcessorMaker::intel, true)
        .front();
  };
  const auto tiles = first(ConvolutionAlgorithm::automatic, DType::bf16);
  EXPECT_EQ(tiles.x, Layout::nhwc);
  EXPECT_EQ(tiles.y, Layout::nhwc);
  EXPECT_EQ(tiles.products, DType::bf16);
  if (!cpu::has_avx512()) GTEST_SKIP() << "this processor has no AVX-512";
  EXPECT_EQ(first(ConvolutionAlgorithm::automatic, DType::f32).x, Layout::nchw16c);
  EXPECT_TRUE(first(ConvolutionAlgorithm::winograd, DType::bf16).winograd);
}

TEST(ConvolutionRule, KnowsWhereWinogradWinsOnEachMakersProcessors) {
  const auto winograd = [](std::int64_t in, std::int64_t out, const Shape& x,
                           cpu::ProcessorMaker maker) {
    return cpu::convolution_paths(square(in, out, 3, 1, 1), x, cpu::ConvolutionDirection::forward,
                                  DType::f32, maker)
        .front()
        .winograd;
  };
  const auto amd = cpu::ProcessorMaker::amd, intel = cpu::ProcessorMaker::intel;
  if (!winograd(160, 160, {16, 160, 32, 32}, amd)) GTEST_SKIP() << "this processor has no AVX-512";
  EXPECT_TRUE(winograd(160, 160, {16, 160, 32, 32}, intel));
  EXPECT_TRUE(winograd(16, 16, {8, 16, 28, 28}, amd));
  EXPECT_FALSE(winograd(16, 16, {64, 16, 28, 28}, intel));
  EXPECT_TRUE(winograd(64, 64, {8, 64, 14, 14}, intel));
  EXPECT_TRUE(winograd(64, 64, {8, 64, 7, 7}, amd));
  EXPECT_FALSE(winograd(64, 64, {7, 64, 7, 7}, amd));  // few tiles
  EXPECT_FALSE(winograd(64, 64, {8, 64, 7, 7}, intel));
  EXPECT_TRUE(winograd(64, 64, {64, 64, 7, 7}, intel));
  EXPECT_TRUE(winograd(32, 32, {8, 32, 28, 28}, intel));
  EXPECT_FALSE(winograd(32, 32, {64, 32, 14, 14}, intel));  // tiles that are not full
  EXPECT_TRUE(winograd(16, 32, {8, 16, 14, 14}, amd));
  EXPECT_FALSE(winograd(16, 32, {8, 16, 28, 28}, intel));
}

/// The message of the Error that `act` throws.
template <class Act>
std::string message_of(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Convolution, NamesTheOperationAndTheValuesThatDoNotFit) {
  const auto kernel = cpu::convolution(square(16, 32, 3, 1, 1));
  const Tensor w = Tensor::zeros({32, 16, 3, 3}), b = Tensor::zeros({32});
  const Tensor x = Tensor::zeros({2, 16, 8, 8}), y = Tensor::zeros({2, 32, 8, 8});
  Tensor w_grad = Tensor::zeros({32, 16, 3, 3}), b_grad = Tensor::zeros({32});

  EXPECT_THAT(message_of([&] { kernel->forward({}, x); }), HasSubstr("before use_weights"));
  kernel->use_weights({}, w, b, 1);
  const auto wrong_channels = message_of([&] { kernel->forward({}, Tensor::zeros({2, 8, 8, 8})); });
  EXPECT_THAT(wrong_channels, HasSubstr("convolution 16 -> 32, 3x3"));
  EXPECT_THAT(wrong_channels, HasSubstr("[2, 8, 8, 8]"));
  EXPECT_THAT(wrong_channels, HasSubstr("check in_channels"));
  EXPECT_THAT(message_of([&] {
                kernel->forward({}, Tensor::zeros({2, 16}, DType::f32));
              }),
              HasSubstr("[N, 16, H, W]"));
  EXPECT_THAT(message_of([&] {
                kernel->forward({}, Tensor::zeros({2, 16, 8, 8}, DType::f64));
              }),
              HasSubstr("f64"));
  EXPECT_THAT(message_of([&] {
                kernel->forward({}, Tensor::zeros({0, 16, 8, 8}));
              }),
              HasSubstr("empty"));
  EXPECT_THAT(message_of([&] { kernel->forward({}, Tensor()); }), HasSubstr("the input is []"));
  EXPECT_THAT(message_of([&] {
                kernel->use_weights({}, Tensor::zeros({32, 16, 5, 5}), b, 2);
              }),
              HasSubstr("the weight is f32 [32, 16, 5, 5]"));
  EXPECT_THAT(message_of([&] { kernel->use_weights({}, w, Tensor(), 2); }),
              HasSubstr("the bias is missing"));
  EXPECT_THAT(message_of([&] {
                kernel->input_gradient({}, y, {2, 16, 9, 8}, Layout::row_major);
              }),
              HasSubstr("the output's gradient is f32 [2, 32, 8, 8]"));
  EXPECT_THAT(message_of([&] { kernel->weight_gradient({}, x, y, b_grad, b_grad); }),
              HasSubstr("the weight's gradient is f32 [32]"));
  EXPECT_THAT(message_of([&] { kernel->weight_gradient({}, x, y, w_grad, w_grad); }),
              HasSubstr("the bias's gradient"));
}

TEST(Convolution, RefusesGroupsThatDoNotDivideTheChannels) {
  EXPECT_THAT(message_of([] { cpu::convolution(grouped(square(16, 24, 3, 1, 1), 16)); }),
              HasSubstr("16 -> 24, 3x3, stride 1x1, padding 1x1, 16 groups: the channels cannot"));
  EXPECT_THAT(message_of([] { cpu::convolution(grouped(square(16, 16, 3, 1, 1), 0)); }),
              HasSubstr("zero or negative"));
  EXPECT_THAT(message_of([] { cpu::convolution(grouped(square(16, 16, 3, 1, 1), 1, 0)); }),
              HasSubstr("zero or negative"));
}

TEST(Convolution, KeepsTheLayoutOfAChainInDepthwiseLayers) {
  for (const std::int64_t channels : {32, 24}) {
    const Problem problem{grouped(square(channels, channels, 3, 1, 1), channels),
                          {2, channels, 6, 5}};
    const auto before = cpu::convolution_paths(square(16, channels, 1, 1, 0), {2, 16, 6, 5},
                                               cpu::ConvolutionDirection::forward);
    const auto kernel = cpu::convolution(problem.options);
    for (const Layout layout : {before.front().y, Layout::nhwc})
      EXPECT_EQ(compute(*kernel, {}, problem, layout, layout).y.layout(), layout);
  }
}

TEST(Convolution, RefusesKernelsLargerThanTheImageAndImpossibleSizes) {
  const auto kernel = cpu::convolution(square(1, 16, 5, 1, 0));
  EXPECT_THAT(message_of([&] {
                kernel->forward({}, Tensor::zeros({2, 1, 4, 4}));
              }),
              HasSubstr("smaller than the kernel"));
  EXPECT_THAT(message_of([] { cpu::convolution(square(16, 16, 3, 0, 1)); }),
              HasSubstr("stride 0x0"));
  EXPECT_THAT(message_of([] { cpu::convolution(square(0, 16, 3, 1, 1)); }),
              HasSubstr("zero or negative"));
}

}  // namespace
}  // namespace troupe
