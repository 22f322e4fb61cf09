#include <gtest/gtest.h>

#include "ops/models/model.h"
#include "runtime/error.h"

namespace troupe {
namespace {

Error refusal(const ModelOptions& options) {
  try {
    make_model(options);
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::internal, "it was taken");
}

std::vector<std::string> block_paths(const ModelOptions& options) {
  std::vector<std::string> result;
  const Model model = make_model(options);
  for (const auto& block : model.blocks) result.push_back(block->path());
  return result;
}

TEST(Models, SuggestTheNearestName) {
  const Error error = refusal({.name = "wide_resnt"});
  EXPECT_EQ(error.code(), ErrorCode::bad_options);
  EXPECT_NE(error.message().find("'wide_resnt'"), std::string::npos);
  EXPECT_NE(error.remedy().find("did you mean wide_resnet?"), std::string::npos);
}

TEST(Models, RefuseSizesThatTheyCannotHave) {
  for (const ModelOptions& options : std::vector<ModelOptions>{
           {.height = 27},
           {.width = 56},
           {.widths = {16, 16, 32}},
           {.widths = {16, 16, 0, 64}},
           {.classes = 0},
           {.dropout = 1.0},
           {.in_channels = -1},
           {.name = "mnist_cnn", .height = 3},
           {.name = "mlp", .widths = {-5}},
       })
    EXPECT_EQ(refusal(options).code(), ErrorCode::bad_options) << refusal(options).what();
}

TEST(Models, MayBeCutBetweenTheseBlocks) {
  using Paths = std::vector<std::string>;
  EXPECT_EQ(block_paths({.name = "wide_resnet"}),
            (Paths{"input_block", "block1", "block2", "pool1", "block3", "block4", "pool2",
                   "block5", "block6", "pool", "flat", "fc"}));
  EXPECT_EQ(block_paths({.name = "mnist_cnn"}), (Paths{"layer1", "layer2", "flatten", "fc"}));
  EXPECT_EQ(block_paths({.name = "mlp"}), (Paths{"flatten", "layers.0", "layers.1", "layers.2"}));
}

TEST(Models, TakeImagesOfThirtyTwoPixelsAsTheGuideDoes) {
  const Model model = make_model({.in_channels = 3, .height = 32, .width = 32, .classes = 100});
  EXPECT_EQ(model.sample_shape, (Shape{3, 32, 32}));
  EXPECT_EQ(model.classes, 100);
}

}  // namespace
}  // namespace troupe
