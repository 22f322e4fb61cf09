// A device that stands for a GPU which is not there.
#include "ops/planned_device.h"

#include <gmock/gmock.h>

#include <vector>

#include "ops/backend.h"
#include "ops/models/models.h"
#include "ops/nn/network.h"
#include "ops/on_device.h"

namespace troupe {
namespace {

using ::testing::ElementsAre;

const SampleSpec images{.shape = {1, 28, 28}, .classes = 10};

/// The first blocks of a small model, which convolve, on such a device: forward and backward.
struct Step {
  explicit Step(const Stream& stream) {
    Model model = MnistCnn{}.make(images);
    const std::size_t blocks = model.blocks.size();
    Network network(std::move(model), 0, blocks, DType::f32, stream);
    network.use(on_device(stream, initial_state(network.spec(), DType::f32, 1)));
    const auto pass = network.forward(Tensor::zeros({2, 1, 28, 28}), {}, false);
    y = pass->result();
    network.backward(*pass, zeros(stream, y.shape(), DType::f32));
    gradient = pass->gradients;
  }
  Tensor y, gradient;
};

TEST(PlannedDevice, AsksForTheWorkspaceOfEachPassWithThePlannedSamples) {
  std::vector<ConvolutionWork> asked;
  const Stream stream{.device = planned_device({.title = "a GPU",
                                                .workspace_bytes =
                                                    [&](const ConvolutionWork& work) {
                                                      asked.push_back(work);
                                                      return std::size_t{100} << 20;
                                                    },
                                                .samples_factor = 64,
                                                .deterministic = false})};
  Step run(stream);
  std::vector<ConvolutionPass> passes;
  for (const ConvolutionWork& work : asked) {
    passes.push_back(work.pass);
    EXPECT_EQ(work.x[0], 128);
    EXPECT_EQ(work.y[0], 128);
    EXPECT_EQ(work.layout, Layout::row_major);
    EXPECT_FALSE(work.deterministic);
  }
  // Of two convolutions. Nobody wants the gradient of the samples.
  using enum ConvolutionPass;
  EXPECT_THAT(passes,
              ElementsAre(forward, forward, input_gradient, weight_gradient, weight_gradient));
  const Backend& device = backend(stream.device);
  EXPECT_EQ(*device.take_scratch(0).rbegin(), std::size_t{100} << 20);
  EXPECT_EQ(*device.take_scratch(0).rbegin(), std::size_t{32} << 20) << "of a matrix product";
}

TEST(PlannedDevice, HoldsTensorsOfItsOwnInTheShapesOfTheModel) {
  const Stream stream{.device = planned_device(
                          {.title = "a GPU", .workspace_bytes = [](const auto&) { return 0u; }})};
  auto& allocator = CachingAllocator::of(stream.device);
  const std::size_t before = allocator.counters().in_use_bytes;
  {
    const Step run(stream);
    EXPECT_EQ(run.y.device(), stream.device);
    EXPECT_EQ(run.y.shape(), (Shape{2, 10}));
    EXPECT_GE(allocator.counters().in_use_bytes, before + run.gradient.bytes());
  }
  EXPECT_EQ(allocator.counters().in_use_bytes, before);
}

/// The working memory of a convolution with these products, forward, of inputs and of weights, in
/// units of an image of f32. cuDNN takes none.
std::vector<double> scratch_of_a_convolution(PlannedDeviceOptions options, Layout layout) {
  options.title = "a GPU";
  options.workspace_bytes = [](const auto&) { return std::size_t{0}; };
  options.samples_factor = 65'536;
  const Stream stream{.device = planned_device(options)};
  const ConvolutionOptions one{.in_channels = 16, .out_channels = 16, .kernel_h = 1, .kernel_w = 1};
  const Tensor weight = zeros(stream, {16, 16, 1, 1}, DType::f32),
               bias = zeros(stream, {16}, DType::f32);
  const Tensor x = Tensor::empty({1, 16, 8, 8}, DType::f32, stream.device, layout);
  Tensor weight_grad = zeros(stream, weight.shape(), DType::f32), bias_grad;
  const auto kernel = kernels(stream.device, DType::f32).convolution(one);
  std::vector<double> images;
  const auto note = [&] {
    images.push_back(static_cast<double>(*backend(stream.device).take_scratch(0).rbegin()) /
                     static_cast<double>(x.bytes() * 65'536));
  };
  kernel->use_weights(stream, weight, bias, 1);
  (void)kernel->forward(stream, x);
  note();
  (void)kernel->input_gradient(stream, x, x.shape(), layout);
  note();
  kernel->weight_gradient(stream, x, x, weight_grad, bias_grad);
  note();
  return images;
}

TEST(PlannedDevice, TakesWeightsOfSequences) {
  const Stream stream{.device = planned_device({.title = "a GPU",
                                                .workspace_bytes = [](const auto&) { return 0u; },
                                                .products = DType::bf16})};
  const Tensor x = zeros(stream, {2, 4, 1, 9}, DType::f32),
               weight = zeros(stream, {6, 4, 3}, DType::f32);
  Tensor weight_grad = zeros(stream, weight.shape(), DType::f32), bias_grad;
  const auto kernel =
      kernels(stream.device, DType::f32)
          .convolution({.in_channels = 4, .out_channels = 6, .kernel_h = 1, .kernel_w = 3});
  kernel->use_weights(stream, weight, {}, 1);
  const Tensor y = kernel->forward(stream, x);
  EXPECT_EQ(y.shape(), (Shape{2, 6, 1, 7}));
  kernel->weight_gradient(stream, x, y, weight_grad, bias_grad);
}

// Forward: x in 16 bits, and y in f32 without and with the bias. Gradients are copied back from the
// layout that is multiplied.
TEST(PlannedDevice, CountsWhatConvolutionsCopy) {
  using ::testing::DoubleNear;
  const auto are = [](double forward, double inputs, double weights) {
    return ElementsAre(DoubleNear(forward, 0.01), DoubleNear(inputs, 0.01),
                       DoubleNear(weights, 0.01));
  };
  for (const DType products : {DType::bf16, DType::f16})
    for (const Layout layout : {Layout::row_major, Layout::nhwc})
      EXPECT_THAT(scratch_of_a_convolution({.products = products}, layout), are(2.5, 1, 1));
  const PlannedDeviceOptions tf32{.conv_tf32 = true};
  EXPECT_THAT(scratch_of_a_convolution(tf32, Layout::row_major), are(1, 2, 2));
  constexpr double least = 0.125;  // the 32 MiB of a matrix product
  EXPECT_THAT(scratch_of_a_convolution(tf32, Layout::nhwc), are(least, 1, least));
}

// Scores are in f32 though the factors have 16 bits: at most 2^25 at a time, and twice as many when
// there are gradients.
TEST(PlannedDevice, CountsTheScoresOfAttentionsInTheTypeThatIsComputedWith) {
  const Stream stream{.device = planned_device({.title = "a GPU",
                                                .workspace_bytes = [](const auto&) { return 0u; },
                                                .samples_factor = 4096,
                                                .products = DType::bf16})};
  const Tensor x = zeros(stream, {1, 128, 8}, DType::bf16);
  const KernelTable& table = kernels(stream.device, DType::bf16);
  constexpr std::size_t products = std::size_t{32} << 20, scores = std::size_t{128} << 20;
  const AttentionOutput found = table.attention(stream, x, x, x, {}, {});
  EXPECT_EQ(*backend(stream.device).take_scratch(0).rbegin(), scores + products);
  EXPECT_EQ(found.y.dtype(), DType::f32);
  EXPECT_EQ(found.saved.shape(), (Shape{1, 128})) << "a number for a token, not its shares";
  (void)table.attention_backward(stream, found.y, x, x, x, {}, found, {});
  EXPECT_EQ(*backend(stream.device).take_scratch(0).rbegin(), 2 * scores + products);
}

}  // namespace
}  // namespace troupe
