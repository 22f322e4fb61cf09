#include "ops/models/models.h"

#include <gtest/gtest.h>

#include <functional>

#include "ops/nn/network.h"
#include "runtime/error.h"

namespace troupe {
namespace {

const SampleSpec mnist{.shape = {1, 28, 28}, .classes = 10};

Error refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::internal, "it was taken");
}

std::vector<std::string> block_paths(const ModelSource& source) {
  std::vector<std::string> result;
  const Model model = source.make(mnist);
  for (const auto& block : model.blocks) result.push_back(block->path());
  return result;
}

TEST(Models, SuggestTheNearestName) {
  const Error error = refusal([] { find_definition(known_models(), "wide_resnt"); });
  EXPECT_EQ(error.code(), ErrorCode::bad_options);
  EXPECT_NE(error.message().find("'wide_resnt'"), std::string::npos);
  EXPECT_NE(error.remedy().find("did you mean wide_resnet?"), std::string::npos);
}

TEST(Models, RefuseOptionsThatTheyCannotHave) {
  for (const ModelSource& source : std::vector<ModelSource>{
           WideResNet{.widths = {16, 16, 32}}, WideResNet{.widths = {16, 16, 0, 64}},
           WideResNet{.classes = 0}, WideResNet{.dropout = 1.0}, Mlp{.widths = {-5}},
           ResNet18{{.widths = {16, 16, 32}}}, ResNet50{{.widths = {16, 16, 32, 0}}},
           ResNet34{{.classes = 0}}}) {
    const Error error = refusal([&] { source.make({.shape = {1, 28, 28}}); });
    EXPECT_EQ(error.code(), ErrorCode::bad_options) << error.what();
  }
}

TEST(Models, RefuseSamplesThatTheyCannotTake) {
  const auto expect_refused = [](const ModelSource& source, const SampleSpec& samples) {
    const Error error = refusal([&] { source.make(samples); });
    EXPECT_EQ(error.code(), ErrorCode::bad_options) << error.what();
    EXPECT_FALSE(error.remedy().empty());
  };
  expect_refused(WideResNet{}, {.shape = {1, 27, 28}});
  expect_refused(WideResNet{}, {.shape = {1, 28, 56}});
  expect_refused(WideResNet{}, {.shape = {784}});
  expect_refused(MnistCnn{}, {.shape = {1, 3, 28}});
  expect_refused(CifarCnn{}, {.shape = {3, 32, 15}});
  expect_refused(ResNet18{}, {.shape = {3, 16, 224}});
  expect_refused(ResNet18{{.stem = ResNetStem::cifar}}, {.shape = {3, 4, 32}});
  expect_refused(ResNet50{}, {.shape = {784}});
  for (const ModelSource& source : known_models())
    expect_refused(source, {.shape = {1, 28, 28}, .classes = 11});
  const ModelSource winograd = ResNet50{{.convolution = ConvolutionAlgorithm::winograd}};
  EXPECT_EQ(refusal([&] {
              winograd.make({.shape = {3, 32, 32}}, DType::f64);
            }).code(),
            ErrorCode::bad_options);
}

TEST(Models, FollowTheShapeOfTheSamples) {
  for (const Shape& shape : {Shape{7}, Shape{3, 4}, Shape{1, 16, 16}, Shape{2, 3, 4, 5}}) {
    const Model model = ModelSource(Mlp{.widths = {3}}).make({.shape = shape, .classes = 2});
    StateSpec spec;
    for (const auto& block : model.blocks) block->declare(spec);
    EXPECT_EQ(spec.parameters().front().shape, (Shape{3, shape.element_count()}));
  }
}

struct OneLayer {
  static constexpr std::string_view name = "one_layer";
  std::int64_t width = 3;
  OptionFields options() { return {field("model.width", width, "outputs", {.at_least = 2})}; }
  Model make(const SampleSpec& samples) const {
    Model model;
    model.add<nn::Linear>("layer", LinearOptions{.in_features = samples.shape.element_count(),
                                                 .out_features = width});
    return model;
  }
};

TEST(OwnModels, AreBuiltAsTheirOptionsSay) {
  const ModelSource source = OneLayer{.width = 5};
  const Model model = source.make({.shape = {4}});
  EXPECT_EQ(model.name, "one_layer");
  EXPECT_EQ(model.blocks.size(), 1u);
  EXPECT_EQ(refusal([] { ModelSource(OneLayer{.width = 1}).make({.shape = {4}}); }).code(),
            ErrorCode::bad_options);
}

TEST(OwnModels, KeepTheirOptionsApartInCopies) {
  ModelSource one = OneLayer{.width = 5}, other = one;
  other.options().front().read(parse_yaml("7", "test"));
  EXPECT_EQ(one.options().front().write(), "5");
  EXPECT_EQ(other.options().front().write(), "7");
}

TEST(Models, ConsistOfTheseBlocks) {
  using Paths = std::vector<std::string>;
  EXPECT_EQ(block_paths(WideResNet{}),
            (Paths{"input_block", "block1", "block2", "pool1", "block3", "block4", "pool2",
                   "block5", "block6", "pool", "flat", "fc"}));
  EXPECT_EQ(block_paths(MnistCnn{}), (Paths{"layer1", "layer2", "flatten", "fc"}));
  EXPECT_EQ(block_paths(Mlp{}), (Paths{"flatten", "layers.0", "layers.1", "layers.2"}));
  EXPECT_EQ(block_paths(CifarCnn{}), (Paths{"conv1", "relu1", "pool1", "conv2", "relu2", "pool2",
                                            "flatten", "fc1", "relu3", "fc2", "relu4", "fc3"}));
  EXPECT_EQ(block_paths(ResNet18{}),
            (Paths{"conv1", "bn1", "maxpool", "layer1.0", "layer1.1", "layer2.0", "layer2.1",
                   "layer3.0", "layer3.1", "layer4.0", "layer4.1", "avgpool", "flatten", "fc"}));
  const ResNetOptions cifar{.stem = ResNetStem::cifar};
  EXPECT_EQ(block_paths(ResNet34{cifar}).size(), 2u + 16u + 3u);
  EXPECT_EQ(block_paths(ResNet50{cifar}).at(2), "layer1.0");
}

Tensor evaluated(const ModelSource& source, const Shape& sample) {
  Model model = source.make({.shape = sample});
  const std::size_t blocks = model.blocks.size();
  Network network(std::move(model), 0, blocks, DType::f32, Stream{});
  network.use(initial_state(network.spec(), DType::f32, 1));
  return network.evaluate(Tensor::zeros({2, sample[0], sample[1], sample[2]}));
}

TEST(ResNets, TakeImagesOfAnySizeFromTheLeastOn) {
  const std::vector<std::int64_t> widths{4, 4, 8, 8};
  const ResNetOptions cifar{.stem = ResNetStem::cifar, .widths = widths, .classes = 3};
  const ResNetOptions imagenet{.widths = widths, .classes = 3};
  for (const Shape& sample : {Shape{1, 5, 5}, Shape{3, 5, 9}, Shape{3, 33, 16}})
    EXPECT_EQ(evaluated(ResNet18{cifar}, sample).shape(), (Shape{2, 3}));
  for (const Shape& sample : {Shape{1, 17, 17}, Shape{3, 31, 50}, Shape{2, 64, 33}})
    EXPECT_EQ(evaluated(ResNet50{imagenet}, sample).shape(), (Shape{2, 3}));
}

// torchvision's numbers of parameters with 1000 classes.
TEST(ResNets, HaveAsManyParametersAsTorchvisions) {
  const auto count = [](const ModelSource& source) {
    const Model model = source.make({.shape = {3, 224, 224}, .classes = 1000});
    StateSpec spec;
    for (const auto& block : model.blocks) block->declare(spec);
    return spec.parameter_count();
  };
  const ResNetOptions options{.classes = 1000};
  EXPECT_EQ(count(ResNet18{options}), 11689512);
  EXPECT_EQ(count(ResNet34{options}), 21797672);
  EXPECT_EQ(count(ResNet50{options}), 25557032);
}

TEST(Models, TakeImagesOfThirtyTwoPixelsAsTheGuideDoes) {
  EXPECT_NO_THROW(
      ModelSource(WideResNet{.classes = 100}).make({.shape = {3, 32, 32}, .classes = 100}));
}

}  // namespace
}  // namespace troupe
