// The kernels that oneDNN computes give the same bits for any number of threads, also where a layer
// is divided into pieces of samples or of channels.
#include <algorithm>
#include <atomic>
#include <tuple>
#include <vector>

#include "convolution_oracle.h"
#include "ops/cpu/convolution_pieces.h"
#include "ops/cpu/pieces.h"
#include "ops/cpu/processor.h"
#include "runtime/error.h"
#include "vector_support.h"

namespace troupe {
namespace {

using test::expect_same_bits;

struct Layer {
  std::int64_t batch, in, out, size, kernel = 3, stride = 1, groups = 1;
};

// Divided by samples (also into unequal pieces), by channels, into partial sums, and not at all.
const std::vector<Layer> layers{
    {16, 1, 16, 28},           {16, 16, 16, 28},          {17, 16, 32, 14, 5},
    {33, 32, 32, 14},          {16, 64, 64, 7},           {1, 16, 160, 32},
    {4, 160, 160, 16},         {2, 640, 640, 8},          {16, 128, 256, 8, 1},
    {5, 7, 5, 11, 3, 2},       {16, 16, 32, 28, 1, 2},    {9, 17, 33, 9},
    {64, 64, 64, 7},           {64, 64, 64, 16},          {33, 64, 64, 14, 3, 1, 64},
    {9, 40, 40, 14, 5, 2, 40}, {17, 64, 64, 12, 3, 1, 2}, {16, 128, 128, 9, 3, 1, 32}};

ConvolutionOptions options_of(const Layer& l, ConvolutionAlgorithm algorithm) {
  return {.in_channels = l.in,
          .out_channels = l.out,
          .kernel_h = l.kernel,
          .kernel_w = l.kernel,
          .stride_h = l.stride,
          .stride_w = l.stride,
          .padding_h = l.kernel / 2,
          .padding_w = l.kernel / 2,
          .groups = l.groups,
          .algorithm = algorithm};
}

/// All results of a layer: y and the gradients of x, weight and bias.
std::vector<Tensor> results(LayerKernel& kernel, const Stream& stream, const Tensor& x,
                            const Tensor& grad, const Shape& weight) {
  Tensor weight_grad = Tensor::empty(weight, DType::f32, Device::cpu());
  Tensor bias_grad = Tensor::empty({weight[0]}, DType::f32, Device::cpu());
  std::vector<Tensor> all{kernel.forward(stream, x),
                          kernel.input_gradient(stream, grad, x.shape(), x.layout())};
  kernel.weight_gradient(stream, x, grad, weight_grad, bias_grad);
  all.push_back(weight_grad);
  all.push_back(bias_grad);
  return all;
}

/// Also of products in bf16, whose results are those of f32 within the tolerance of bf16's 8 bits.
void expect_same_bits_on_any_threads(LayerKernel& kernel, const Tensor& x, const Tensor& grad,
                                     const Shape& weight) {
  const auto exact = results(kernel, {.threads = 1}, x, grad, weight);
  for (const DType products : {DType::f32, DType::bf16}) {
    if (products == DType::bf16 && !cpu::has_bf16()) continue;
    SCOPED_TRACE(name_of(products));
    const auto one = results(kernel, {.threads = 1, .products = products}, x, grad, weight);
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_LT(oracle::relative_difference(oracle::to_values(one[i]), oracle::to_values(exact[i])),
                products == DType::f32 ? 1e-12 : 0.01);
    for (const int threads : {2, 3, 5, 8}) {
      SCOPED_TRACE(::testing::Message() << threads << " threads");
      const Stream stream{.threads = threads, .products = products};
      const auto several = results(kernel, stream, x, grad, weight);
      for (std::size_t i = 0; i < one.size(); ++i) expect_same_bits(several[i], one[i]);
    }
  }
}

TEST(ThreadBits, OfConvolutionsDoNotDependOnThreads) {
  for (const Layer& l : layers)
    for (const auto algorithm : {ConvolutionAlgorithm::automatic, ConvolutionAlgorithm::direct,
                                 ConvolutionAlgorithm::winograd}) {
      SCOPED_TRACE(::testing::Message() << l.batch << "x" << l.in << " -> " << l.out << ", "
                                        << l.size << ", algorithm " << static_cast<int>(algorithm));
      const auto kernel = test::table().convolution(options_of(l, algorithm));
      const Shape weight{l.out, l.in / l.groups, l.kernel, l.kernel};
      kernel->use_weights({}, test::random_tensor({Layout::row_major, weight}, 1),
                          test::random_tensor({Layout::row_major, {l.out}}, 2), 1);
      const Tensor x = test::random_tensor({Layout::row_major, {l.batch, l.in, l.size, l.size}}, 3);
      const Tensor y = kernel->forward({}, x);
      expect_same_bits_on_any_threads(*kernel, x, test::random_tensor({y.layout(), y.shape()}, 4),
                                      weight);
    }
}

TEST(ThreadBits, OfLinearLayersDoNotDependOnThreads) {
  for (const auto& [rows, in, out] : {std::tuple{128, 784, 500},
                                      {16, 2048, 1000},
                                      {1, 784, 500},
                                      {7, 33, 17},
                                      {64, 1568, 10},
                                      {512, 640, 100}}) {
    SCOPED_TRACE(::testing::Message() << rows << ": " << in << " -> " << out);
    const auto kernel = test::table().linear({.in_features = in, .out_features = out});
    const Shape weight{out, in};
    kernel->use_weights({}, test::random_tensor({Layout::row_major, weight}, 1),
                        test::random_tensor({Layout::row_major, {out}}, 2), 1);
    expect_same_bits_on_any_threads(
        *kernel, test::random_tensor({Layout::row_major, {rows, in}}, 3),
        test::random_tensor({Layout::row_major, {rows, out}}, 4), weight);
  }
}

TEST(ThreadBits, OfCopiesFillsAndScalesDoNotDependOnThreads) {
  const Tensor x = test::random_tensor({Layout::row_major, {37, 1001}}, 1);
  const auto into = [&](const auto& kernel) {
    return test::on_any_threads([&](const Stream& stream) {
      Tensor to = Tensor::empty(x.shape(), DType::f32, Device::cpu());
      kernel(stream, to);
      return to;
    });
  };
  expect_same_bits(into([&](const Stream& s, Tensor& to) { test::table().copy(s, x, to); }), x);
  const Tensor filled = into([](const Stream& s, Tensor& to) { test::table().fill(s, 0.1, to); });
  EXPECT_EQ(filled.elements<float>().back(), 0.1f);
  const Tensor scaled =
      into([&](const Stream& s, Tensor& to) { test::table().scale(s, x, 0.3, to); });
  EXPECT_EQ(scaled.elements<float>().back(), static_cast<float>(x.elements<float>().back() * 0.3));
}

TEST(ConvolutionPieces, CoverSamplesAndChannelsOnce) {
  using enum cpu::ConvolutionDirection;
  bool samples_divided = false, channels_divided = false;
  for (const Layer& l : layers)
    for (const auto direction : {forward, input_gradient, weight_gradient})
      for (const bool winograd : {false, true}) {
        if (winograd && (l.kernel != 3 || l.stride != 1)) continue;
        const Layout layout = l.in % 16 == 0 && l.out % 16 == 0 ? Layout::nchw16c : Layout::nhwc;
        const Shape x{l.batch, l.in, l.size, l.size};
        const auto pieces = cpu::convolution_pieces(options_of(l, ConvolutionAlgorithm::automatic),
                                                    x, direction, {winograd, layout, layout});
        const std::int64_t channels = direction == input_gradient ? l.in : l.out;
        std::vector<int> seen(static_cast<std::size_t>(l.batch * channels));
        for (const auto& piece : pieces) {
          samples_divided |= piece.samples < l.batch;
          channels_divided |= piece.channels < channels;
          for (std::int64_t n = 0; n < piece.samples; ++n)
            for (std::int64_t c = 0; c < piece.channels; ++c)
              ++seen[static_cast<std::size_t>((piece.first_sample + n) * channels +
                                              piece.first_channel + c)];
        }
        EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
      }
  EXPECT_TRUE(samples_divided && channels_divided);
}

TEST(ConvolutionPieces, AreTwoHalvesOfTheSamplesWhereNoOtherDivisionPays) {
  const auto count = [](const Layer& l) {
    const Shape x{l.batch, l.in, l.size, l.size};
    return cpu::convolution_pieces(options_of(l, ConvolutionAlgorithm::winograd), x,
                                   cpu::ConvolutionDirection::forward,
                                   {true, Layout::nchw16c, Layout::nchw16c})
        .size();
  };
  EXPECT_EQ(count({32, 64, 64, 7}), 2);    // 128 tiles of 4x4 pixels
  EXPECT_EQ(count({31, 64, 64, 7}), 1);    // fewer than 64 tiles in half of them
  EXPECT_EQ(count({8, 320, 320, 16}), 5);  // by channels
}

TEST(EqualGroups, AreMultiplesOfAUnitAndNotTooSmall) {
  EXPECT_EQ(cpu::equal_groups(640, 16, 320, 16), 2);
  EXPECT_EQ(cpu::equal_groups(160, 16, 64, 16), 2);
  EXPECT_EQ(cpu::equal_groups(48, 16, 32, 16), 1);
  EXPECT_EQ(cpu::equal_groups(17, 16, 1, 16), 1);
  EXPECT_EQ(cpu::equal_groups(500, 1, 32, 8), 5);
}

TEST(RunPieces, ReportsAPrimitiveThatFails) {
  const auto piece = [](std::size_t piece, std::byte*) {
    cpu::check_status(piece == 3 ? dnnl_runtime_error : dnnl_success);
  };
  for (const int threads : {1, 3})
    EXPECT_THROW(cpu::run_pieces({.threads = threads}, 5, 0, piece), Error);
}

TEST(RunPieces, GivesEachPieceMemoryOfItsOwn) {
  std::vector<std::byte*> starts(7);
  std::atomic<int> changed{0};
  cpu::run_pieces({.threads = 3}, starts.size(), 100, [&](std::size_t piece, std::byte* memory) {
    std::fill_n(memory, 100, static_cast<std::byte>(piece));
    starts[piece] = memory;
    changed +=
        static_cast<int>(100 - std::count(memory, memory + 100, static_cast<std::byte>(piece)));
  });
  EXPECT_EQ(changed, 0);
  for (const std::byte* start : starts) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(start) % 64, 0u);
}

}  // namespace
}  // namespace troupe
