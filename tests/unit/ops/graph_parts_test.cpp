// The blocks and steps of graphs from .pt2 files, and their digests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/graph/model_of.h"
#include "ops/graph/partition.h"
#include "ops/graph/read_graph.h"
#include "ops/graph/shapes.h"
#include "pt2_archive.h"

namespace troupe::graph {
namespace {

using testing::ElementsAre;

std::vector<std::string> block_paths(const Graph& graph) {
  std::vector<std::string> paths;
  for (const GraphBlock& block : partition(graph, graph.output).blocks) paths.push_back(block.path);
  return paths;
}

TEST(GraphBlocks, BeginWhereOneTensorPassesBeforeALayerWithAMatrix) {
  EXPECT_THAT(block_paths(read_pt2(testing_ops::graph_file("resnet18"))),
              ElementsAre("conv1", "layer1.0", "layer1.1", "layer2.0", "layer2.1", "layer3.0",
                          "layer3.1", "layer4.0", "layer4.1", "fc"));
  EXPECT_THAT(block_paths(read_pt2(testing_ops::graph_file("vgg"))),
              ElementsAre("features.0", "features.3", "features.7", "features.10", "classifier.0",
                          "classifier.3"));
  EXPECT_THAT(block_paths(read_pt2(testing_ops::graph_file("vit"))),
              ElementsAre("patch", "encoder.0.attention", "encoder.0.mlp", "encoder.1.attention",
                          "encoder.1.mlp", "head"));
}

TEST(GraphBlocks, HoldAllUsersOfATiedParameter) {
  const Graph read = read_pt2(testing_ops::graph_file("tied"));
  const Partition parts = partition(read, read.output);
  const Graph& graph = *parts.graph;
  for (const GraphBlock& block : parts.blocks) {
    int readers = 0;
    for (const Step& step : block.steps)
      for (const ValueId input : step.inputs(graph))
        readers += graph.value(input).name == "decode.weight" ? 1 : 0;
    EXPECT_TRUE(readers == 0 || readers == 3) << block.path << " has " << readers;
  }
}

TEST(GraphSteps, TakeWhatFollowsABatchNormIntoIt) {
  const Graph graph = read_pt2(testing_ops::graph_file("resnet18"));
  int residuals = 0, relus = 0;
  for (const Step& step : steps_to(graph, graph.output)) {
    const auto name = name_of(graph.nodes[step.node].operation);
    EXPECT_TRUE(name != "relu" && name != "add") << graph.nodes[step.node].name;
    residuals += step.residual.index >= 0 ? 1 : 0;
    relus += step.relu ? 1 : 0;
  }
  EXPECT_EQ(residuals, 8);
  EXPECT_EQ(relus, 17);
}

TEST(GraphSteps, KeepSequencesAsImagesBetweenLayers) {
  const Graph graph = read_pt2(testing_ops::graph_file("series"));
  const Partition parts = partition(graph, graph.output);
  std::vector<std::string> names;
  for (const Step& step : parts.steps) {
    names.emplace_back(name_of(parts.graph->nodes[step.node].operation));
    if (names.back() == "batch_norm") {
      EXPECT_TRUE(step.relu);
    }
  }
  EXPECT_THAT(names, ElementsAre("permute", "reshape", "convolution", "batch_norm", "max_pool",
                                 "dropout", "convolution", "batch_norm", "slice", "concatenate",
                                 "max_pool", "convolution", "silu", "average_pool",
                                 "adaptive_average_pool", "reshape", "reshape", "linear"));
}

TEST(GraphDigest, DependsOnTheModuleThatADropoutBelongsTo) {
  Archive file("vgg");
  const std::string before = digest(file.read());
  file.change_nodes([](json& nodes) {
    std::string& stack =
        node(nodes, "dropout")["metadata"]["nn_module_stack"].get_ref<std::string&>();
    for (auto at = stack.find("classifier.2"); at != stack.npos; at = stack.find("classifier.2"))
      stack.replace(at, 12, "renamed.drop");
  });
  EXPECT_EQ(file.read().nodes[17].module, "renamed.drop");
  EXPECT_NE(digest(file.read()), before);
}

TEST(GraphDigest, DependsOnOperatorsAndNotOnWeights) {
  Archive file("tied");
  const std::string before = digest(file.read());
  for (char& byte : file.member("data/weights/weight_2")) byte = 0;
  EXPECT_EQ(digest(file.read()), before);
  file.change_nodes(
      [](json& nodes) { node(nodes, "relu")["target"] = "torch.ops.aten.silu.default"; });
  EXPECT_NE(digest(file.read()), before);
}

}  // namespace
}  // namespace troupe::graph
