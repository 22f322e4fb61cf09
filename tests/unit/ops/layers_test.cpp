#include "ops/nn/layers.h"

#include <gtest/gtest.h>

#include "ops/nn/network.h"
#include "ops/nn/sequential.h"
#include "runtime/error.h"

namespace troupe {
namespace {

// x + dropout(relu(norm(x))), as a block of a model.
class Residual final : public nn::Module {
 public:
  Residual(std::string path, const nn::BatchNormOptions& options)
      : Module(std::move(path)), norm_(child<nn::BatchNorm2d>("norm", options)) {}
  Value forward(Tape& tape, Value x) override { return norm_.forward(tape, x, x); }

 private:
  nn::BatchNorm2d& norm_;
};

Tensor ramp(const Shape& shape) {
  Tensor result = Tensor::empty(shape, DType::f32, Device::cpu());
  for (std::int64_t e = 0; e < result.element_count(); ++e)
    result.data<float>()[e] = static_cast<float>(e % 7) - 3.0f;
  return result;
}

template <class M>
Tensor trained(const nn::BatchNormOptions& options, const Tensor& x) {
  Model model;
  model.add<M>("block", options);
  Network network(std::move(model), 0, 1, DType::f32, Stream{});
  network.use(initial_state(network.spec(), DType::f32, 1));
  auto pass = network.forward(x, {.seed = 1}, true);
  const Tensor grad = Tensor::zeros(x.shape());
  network.backward(*pass, grad);
  return pass->result();
}

TEST(BatchNorm2d, TakesDropoutTogetherWithAResidual) {
  const nn::BatchNormOptions options{
      .features = 3, .relu = true, .dropout = 0.5, .dropout_path = "drop"};
  const Tensor x = ramp({4, 3, 5, 5});
  const Tensor alone = trained<nn::BatchNorm2d>(options, x);
  const Tensor onto = trained<Residual>(options, x);
  for (std::int64_t e = 0; e < x.element_count(); ++e)
    EXPECT_NEAR(onto.data<float>()[e], alone.data<float>()[e] + x.data<float>()[e], 1e-6f);
}

TEST(BatchNorm2d, DropsElementsOfTheReluOfASum) {
  nn::BatchNormOptions options{
      .features = 3, .relu = true, .dropout = 0.5, .dropout_path = "drop", .residual_first = true};
  const Tensor x = ramp({4, 3, 5, 5});
  const Tensor dropped = trained<Residual>(options, x);
  options.dropout = 0;
  const Tensor whole = trained<Residual>(options, x);
  std::int64_t kept = 0;
  for (std::int64_t e = 0; e < x.element_count(); ++e) {
    EXPECT_GE(whole.data<float>()[e], 0.0f);
    if (dropped.data<float>()[e] == 0.0f) continue;
    EXPECT_NEAR(dropped.data<float>()[e], 2 * whole.data<float>()[e], 1e-5f);
    ++kept;
  }
  EXPECT_GT(kept, x.element_count() / 10);
}

TEST(BatchNorm2d, TakesDropoutWithoutRelu) {
  const nn::BatchNormOptions options{.features = 3, .dropout = 0.5, .dropout_path = "drop"};
  const Tensor z = trained<nn::BatchNorm2d>(options, ramp({4, 3, 5, 5}));
  std::int64_t zeros = 0, negative = 0;
  for (const float value : z.elements<float>()) {
    zeros += value == 0.0f;
    negative += value < 0.0f;
  }
  EXPECT_GT(zeros, z.element_count() / 3);
  EXPECT_GT(negative, 0);
}

TEST(Sequential, NamesItsPartsAsTheyWereAdded) {
  nn::Sequential layers("layer1");
  layers.add<nn::Linear>("0", LinearOptions{.in_features = 2, .out_features = 2})
      .add<nn::Relu>("1")
      .add<nn::Linear>("2", LinearOptions{.in_features = 2, .out_features = 3, .bias = false});
  StateSpec spec;
  layers.declare(spec);
  ASSERT_EQ(spec.parameters().size(), 3u);
  EXPECT_EQ(spec.parameters()[1].name, "layer1.0.bias");
  EXPECT_EQ(spec.parameters()[2].name, "layer1.2.weight");
}

TEST(Layers, RefuseSizesThatCannotBe) {
  EXPECT_THROW(nn::Conv2d("c", {.in_channels = 0, .out_channels = 1}), Error);
  EXPECT_THROW(nn::Conv2d("c", {.in_channels = 1, .out_channels = 1, .stride_h = 0}), Error);
  EXPECT_THROW(nn::Conv2d("c", {.in_channels = 1, .out_channels = 1, .padding_w = -1}), Error);
  EXPECT_THROW(nn::Conv2d("c", {.in_channels = 1, .out_channels = 1, .dilation_h = 0}), Error);
  EXPECT_THROW(nn::Conv2d("c", {.in_channels = 4, .out_channels = 6, .groups = 4}), Error);
  EXPECT_THROW(nn::Conv2d("c", {.in_channels = 4, .out_channels = 4, .groups = 0}), Error);
  EXPECT_THROW(nn::Linear("l", {.in_features = 1, .out_features = -2}), Error);
  EXPECT_THROW(nn::BatchNorm2d("b", {.features = 4, .dropout = 1.0}), Error);
  EXPECT_THROW(nn::Dropout("d", {.probability = -0.1}), Error);
}

}  // namespace
}  // namespace troupe
