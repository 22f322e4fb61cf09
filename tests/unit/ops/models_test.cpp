#include "ops/models/models.h"

#include <gtest/gtest.h>

#include <functional>

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
           WideResNet{.classes = 0}, WideResNet{.dropout = 1.0}, Mlp{.widths = {-5}}}) {
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
  for (const ModelSource& source : known_models())
    expect_refused(source, {.shape = {1, 28, 28}, .classes = 11});
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
}

TEST(Models, TakeImagesOfThirtyTwoPixelsAsTheGuideDoes) {
  EXPECT_NO_THROW(
      ModelSource(WideResNet{.classes = 100}).make({.shape = {3, 32, 32}, .classes = 100}));
}

}  // namespace
}  // namespace troupe
