// The graphs that ONNX files describe: patterns of nodes and what they are.

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>

#include "graph_files.h"
#include "onnx_model.h"
#include "ops/graph/onnx_node.h"
#include "ops/graph/pt2.h"
#include "ops/graph/read_graph.h"
#include "ops/graph/shapes.h"
#include "ops/models/file_model.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe::testing_ops {
namespace {

using graph::Graph;
using testing::ElementsAre;

std::vector<std::string> operators(const Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Node& node : graph.nodes) names.emplace_back(name_of(node.operation));
  return names;
}

std::string output_shape(const Graph& graph) { return to_string(graph.value(graph.output).shape); }

std::vector<std::string> parameters(const Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Value& value : graph.values)
    if (value.kind == graph::Value::Kind::parameter) names.push_back(value.name);
  return names;
}

template <class O>
const O& last(const Graph& graph) {
  return std::get<O>(graph.nodes.back().operation);
}

TEST(OnnxModels, WithASoftmaxBeforeCrossEntropyAreTrainedWithANote) {
  const test::TemporaryFolder folder;
  const auto notes = [&](const std::string& last, std::int64_t classes) {
    OnnxModel onnx({6});
    onnx.weight("w", {6, 4});
    onnx.node("MatMul", {"x", "w"}, "y");
    onnx.node(last, {"y"}, "z", {{"axis", std::int64_t{1}}});
    std::ofstream(folder / "net.onnx", std::ios::binary) << onnx.bytes();
    const FileModel model{.file = folder / "net.onnx"};
    return model.make({.shape = {6}, .classes = classes}).notes;
  };
  using testing::Contains, testing::HasSubstr, testing::Not;
  EXPECT_THAT(notes("Softmax", 4),
              Contains(HasSubstr("ends with a softmax, and cross-entropy applies another")));
  EXPECT_THAT(notes("LogSoftmax", 4), Contains(HasSubstr("log-softmax at the end of")));
  EXPECT_THAT(notes("Softmax", 0), Not(Contains(HasSubstr("softmax")))) << "no cross-entropy";
}

class BothDoors : public testing::TestWithParam<std::string> {};
class SameOperators : public testing::TestWithParam<std::string> {};

TEST_P(SameOperators, FollowFromBothDoorsWithShapesAndNames) {
  const Graph pt2 = graph::read_graph(graph_file(GetParam(), ".pt2"));
  const Graph onnx = graph::read_graph(graph_file(GetParam(), ".onnx"));
  EXPECT_EQ(operators(pt2), operators(onnx));
  const bool has_frozen = GetParam() == "tied";  // which ONNX does not say
  EXPECT_EQ(graph::digest(pt2) == graph::digest(onnx), !has_frozen);
  ASSERT_EQ(pt2.nodes.size(), onnx.nodes.size());
  for (std::size_t i = 0; i < pt2.nodes.size(); ++i) {
    EXPECT_EQ(pt2.nodes[i].module, onnx.nodes[i].module) << onnx.nodes[i].name;
    EXPECT_EQ(pt2.nodes[i].source, onnx.nodes[i].source) << onnx.nodes[i].name;
  }
}

TEST_P(BothDoors, LeadToTheSameWeights) {
  const Graph pt2 = graph::read_graph(graph_file(GetParam(), ".pt2"));
  const Graph onnx = graph::read_graph(graph_file(GetParam(), ".onnx"));
  EXPECT_EQ(pt2.weights.tensors.size(), onnx.weights.tensors.size());
  for (const TensorInfo& info : pt2.weights.tensors) {
    const Tensor a = pt2.weights.read(info.name), b = onnx.weights.read(info.name);
    EXPECT_EQ(a.shape(), b.shape()) << info.name;
    EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0) << info.name;
  }
  ASSERT_EQ(pt2.constants.size(), onnx.constants.size());
  ASSERT_EQ(pt2.aliases.size(), onnx.aliases.size());
  for (std::size_t i = 0; i < pt2.aliases.size(); ++i) {
    EXPECT_EQ(pt2.aliases[i].name, onnx.aliases[i].name);
    EXPECT_EQ(pt2.aliases[i].of, onnx.aliases[i].of);
  }
}

INSTANTIATE_TEST_SUITE_P(EachModel, BothDoors, testing::ValuesIn(graph_models));
// Not "tokens": its products are attention in ONNX, where the parts of attention are recognised.
INSTANTIATE_TEST_SUITE_P(EachModel, SameOperators,
                         testing::Values("vgg", "resnet18", "depthwise", "dense", "vit", "tied",
                                         "series"));

TEST(OnnxNumbers, AreTheShortestDecimalsOfTheirBits) {
  EXPECT_EQ(graph::onnx::shortest_decimal(0.1f), 0.1);
  EXPECT_EQ(graph::onnx::shortest_decimal(1e-5f), 1e-5);
  EXPECT_EQ(graph::onnx::shortest_decimal(0.9f), 0.9);
  EXPECT_EQ(graph::onnx::shortest_decimal(-std::numeric_limits<float>::infinity()),
            -std::numeric_limits<double>::infinity());
}

TEST(OnnxGraph, TakesConvolutionWithExpandedZerosAsOneWithoutBias) {
  OnnxModel model({3, 8, 8});
  model.weight("w", {4, 3, 3, 3});
  model.node("Shape", {"w"}, "s", {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}});
  model.real("zero", 0);
  model.node("CastLike", {"zero", "x"}, "like");
  model.node("Expand", {"like", "s"}, "zeros");
  model.node("Conv", {"x", "w", "zeros"}, "y", {{"pads", Dims{1, 1, 1, 1}}});
  const Graph graph = model.read();
  EXPECT_THAT(operators(graph), ElementsAre("convolution"));
  EXPECT_FALSE(last<graph::Convolution>(graph).options.bias);
  EXPECT_EQ(graph.nodes[0].inputs.size(), 2u);
  EXPECT_EQ(output_shape(graph), "[batch, 4, 8, 8]");
  EXPECT_THAT(parameters(graph), ElementsAre("w"));
}

TEST(OnnxGraph, FlattensByTheSymbolOfTheBatch) {
  OnnxModel model({3, 4, 2});
  model.node("Shape", {"x"}, "s", {{"end", std::int64_t{1}}});
  model.node("Squeeze", {"s"}, "n");
  model.integers("minus", {-1});
  model.node("Reshape", {"n", "minus"}, "n1");
  model.integers("rest", {24});
  model.node("Concat", {"n1", "rest"}, "shape", {{"axis", std::int64_t{0}}});
  model.node("Reshape", {"x", "shape"}, "flat");
  model.node("Relu", {"flat"}, "y");
  const Graph graph = model.read();
  EXPECT_THAT(operators(graph), ElementsAre("reshape", "relu"));
  EXPECT_EQ(output_shape(graph), "[batch, 24]");
}

TEST(OnnxGraph, MergesTheSymbolOfTheBatchWithOtherAxes) {
  OnnxModel model({6, 4});
  model.integers("shape", {-1, 4});
  model.node("Reshape", {"x", "shape"}, "rows");
  model.node("Relu", {"rows"}, "y");
  EXPECT_EQ(output_shape(model.read()), "[6*batch, 4]");
}

TEST(OnnxGraph, TakesProductWithTransposedWeightAndSumAsLinear) {
  OnnxModel model({5, 3});
  model.weight("w", {4, 3});
  model.weight("b", {4});
  model.node("Transpose", {"w"}, "t", {{"perm", Dims{1, 0}}});
  model.node("MatMul", {"x", "t"}, "p");
  model.node("Add", {"b", "p"}, "y");
  const Graph graph = model.read();
  EXPECT_THAT(operators(graph), ElementsAre("linear"));
  EXPECT_EQ(graph.nodes[0].inputs.size(), 3u);
  EXPECT_EQ(output_shape(graph), "[batch, 5, 4]");
}

TEST(OnnxGraph, TakesAReciprocalAsAQuotient) {
  OnnxModel model({5});
  model.node("Reciprocal", {"x"}, "y");
  const Graph graph = model.read();
  EXPECT_EQ(last<graph::Arithmetic>(graph).operation, ArithmeticOperation::divide);
  EXPECT_EQ(graph.value(graph.nodes.back().inputs[0]).constant.elements<double>()[0], 1.0);
}

TEST(OnnxGraph, TakesSigmoidTimesItsInputAsSilu) {
  OnnxModel model({5});
  model.node("Sigmoid", {"x"}, "s");
  model.node("Mul", {"s", "x"}, "y");
  EXPECT_THAT(operators(model.read()), ElementsAre("silu"));
}

TEST(OnnxGraph, TakesElementsOfSequenceAsSlices) {
  OnnxModel model({7, 2});
  model.integer("three", 3);
  model.integer("last", -1);
  model.node("SplitToSequence", {"x", "three"}, "parts", {{"axis", std::int64_t{1}}});
  model.node("SequenceAt", {"parts", "last"}, "y");
  const Graph graph = model.read();
  EXPECT_THAT(operators(graph), ElementsAre("slice"));
  EXPECT_EQ(last<graph::Slice>(graph).start, 6);
  EXPECT_EQ(output_shape(graph), "[batch, 1, 2]");
}

TEST(OnnxGraph, TakesGatherOfOneElementAsSelection) {
  OnnxModel model({7, 2});
  model.integer("first", -7);
  model.node("Gather", {"x", "first"}, "y", {{"axis", std::int64_t{1}}});
  const Graph graph = model.read();
  EXPECT_THAT(operators(graph), ElementsAre("slice", "reshape"));
  EXPECT_EQ(output_shape(graph), "[batch, 2]");
}

TEST(OnnxGraph, ListsWhatStopsTheGradient) {
  OnnxModel model({3});
  auto& note = *model.node("Identity", {"x"}, "d").add_metadata_props();
  note.set_key("pkg.torch.onnx.fx_node");
  note.set_value(
      "%d : [num_users=1] = call_function[target=torch.ops.aten.detach.default](args = (%x,), "
      "kwargs = {})");
  model.node("Relu", {"d"}, "y");
  const Graph graph = model.read();
  ASSERT_EQ(graph.lacking.size(), 1u);
  EXPECT_EQ(graph.lacking[0].reason, "it stops the gradient");
}

TEST(OnnxGraph, NotesWhatKeepsItsValueThoughPyTorchWouldChangeIt) {
  const auto notes = [](const std::string& signature) {
    OnnxModel model({3});
    model.weight("w", {3});
    model.weight("temperature", {});
    if (!signature.empty()) model.signature(signature);
    model.node("Mul", {"x", "w"}, "p");
    model.node("Mul", {"p", "temperature"}, "y");
    return model.read().notes;
  };
  EXPECT_THAT(notes(""), testing::Contains(testing::HasSubstr(
                             "numbers without an axis (temperature); export with dynamo=True")));
  EXPECT_THAT(notes("a: PARAMETER target='w'\nb: BUFFER target='temperature'\n"
                    "add: BUFFER_MUTATION target='temperature'\n"),
              testing::Contains(testing::HasSubstr("the buffer temperature, which the module "
                                                   "writes to, keeps its value here")));
}

/// The padding_idx of nn.Embedding is a note of PyTorch's; Gather has none.
TEST(OnnxGraph, ReadsTheRowOfPaddingThatPyTorchNotes) {
  const auto read = [](const std::string& arguments) {
    OnnxModel model({5}, 7);
    model.weight("table", {4, 3});
    auto& note = *model.node("Gather", {"table", "x"}, "y").add_metadata_props();
    note.set_key("pkg.torch.onnx.fx_node");
    note.set_value(
        "%y : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = (" +
        arguments + "), kwargs = {})");
    return model.read();
  };
  const auto row = [&](const std::string& arguments) {
    return last<graph::Embedding>(read(arguments)).padding_row;
  };
  EXPECT_EQ(row("%table, %x, 3"), 3);
  EXPECT_EQ(row("%table, %x, 2, False, False"), 2);
  EXPECT_EQ(row("%table, %x"), -1);
  EXPECT_EQ(read("%table, %x, -1, True").lacking.at(0).reason, "scale_grad_by_freq=True");
  for (const char* damaged : {"%table, %x, 4", "%table, %x, -2", "%table, %x, 1z"})
    EXPECT_THROW((void)read(damaged), Error) << damaged;
}

TEST(OnnxGraph, TakesGatherOfParameterAsEmbedding) {
  OnnxModel model({6}, 7);
  model.weight("table", {11, 4});
  model.weight("places", {9, 4});
  model.integer("from", 0);
  model.integer("to", 6);
  model.integer("step", 1);
  model.node("Range", {"from", "to", "step"}, "range");
  model.node("Gather", {"table", "x"}, "words");
  model.node("Gather", {"places", "range"}, "offsets");
  model.node("Add", {"words", "offsets"}, "y");
  const Graph graph = model.read();
  EXPECT_THAT(operators(graph), ElementsAre("embedding", "embedding", "add"));
  EXPECT_EQ(output_shape(graph), "[batch, 6, 4]");
}

TEST(OnnxGraph, TakesMaxAndMinWithNumbersAsOneClamp) {
  OnnxModel model({5});
  model.real("low", 0);
  model.real("high", 6);
  model.node("Max", {"x", "low"}, "m");
  model.node("Min", {"m", "high"}, "y");
  const Graph graph = model.read();
  EXPECT_THAT(operators(graph), ElementsAre("clamp"));
  EXPECT_EQ(last<graph::Clamp>(graph).low, 0);
  EXPECT_EQ(last<graph::Clamp>(graph).high, 6);
}

TEST(OnnxGraph, TakesOnlyATransposedWeightForThatOfALinearLayer) {
  const auto operators_for = [](const Dims& axes) {
    OnnxModel model({4});
    model.weight("w", {4, 4});
    model.node("Transpose", {"w"}, "t", {{"perm", axes}});
    model.node("MatMul", {"x", "t"}, "y");
    return operators(model.read());
  };
  EXPECT_THAT(operators_for({1, 0}), ElementsAre("linear"));
  EXPECT_THAT(operators_for({0, 1}), ElementsAre("permute", "matmul"));
}

TEST(OnnxGraph, LacksABoundWithMoreAxesThanItsTensor) {
  OnnxModel model({5});
  model.real("low", 0);
  model.integers("axes", {0, 1, 2});
  model.node("Unsqueeze", {"low", "axes"}, "deep");
  model.node("Max", {"x", "deep"}, "y");
  EXPECT_EQ(model.read().lacking.at(0).reason, "it adds axes to its result");
}

TEST(OnnxGraph, TakesMeanOfImagesAsPooling) {
  OnnxModel model({5, 4, 4});
  model.integers("axes", {-1, -2});
  model.node("ReduceMean", {"x", "axes"}, "y", {{"keepdims", std::int64_t{0}}});
  EXPECT_THAT(operators(model.read()), ElementsAre("adaptive_average_pool", "reshape"));
}

TEST(OnnxGraph, LacksWhatCombinesTheSamplesOfABatch) {
  const auto reasons = [](const OnnxModel& model) {
    std::vector<std::string> all;
    for (const graph::Lacking& one : model.read().lacking) all.push_back(one.reason);
    return all;
  };
  const std::string combines(graph::combines_samples);
  OnnxModel softmax({5});
  softmax.node("Softmax", {"x"}, "y", {{"axis", std::int64_t{0}}});
  EXPECT_THAT(reasons(softmax), ElementsAre(combines));
  OnnxModel products({5});
  products.node("Transpose", {"x"}, "t", {{"perm", Dims{1, 0}}});
  products.node("MatMul", {"t", "x"}, "y");
  EXPECT_THAT(reasons(products), ElementsAre(combines));
  OnnxModel mean({5});
  mean.integers("axes", {0});
  mean.node("ReduceMean", {"x", "axes"}, "y");
  EXPECT_THAT(reasons(mean), ElementsAre(combines));
  OnnxModel attention({2, 6, 4});
  attention.node("Transpose", {"x"}, "t", {{"perm", Dims{1, 2, 0, 3}}});
  attention.node("Attention", {"t", "t", "t"}, "y");
  EXPECT_THAT(reasons(attention), ElementsAre(combines));
}

TEST(OnnxGraph, TakesErrorFunctionInPartsAsGelu) {
  OnnxModel model({5});
  model.real("root", std::sqrt(2.0));
  model.real("one", 1);
  model.real("half", 0.5);
  model.node("Div", {"x", "root"}, "d");
  model.node("Erf", {"d"}, "e");
  model.node("Add", {"e", "one"}, "a");
  model.node("Mul", {"half", "a"}, "h");
  model.node("Mul", {"x", "h"}, "y");
  EXPECT_THAT(operators(model.read()), ElementsAre("gelu"));
}

TEST(OnnxGraph, TakesHyperbolicTangentInPartsAsGelu) {
  OnnxModel model({5});
  model.real("three", 3);
  model.real("factor", 0.044715);
  model.real("root", std::sqrt(2.0 / std::acos(-1.0)));
  model.real("one", 1);
  model.real("half", 0.5);
  model.node("Mul", {"x", "half"}, "hx");
  model.node("Pow", {"x", "three"}, "c");
  model.node("Mul", {"factor", "c"}, "f");
  model.node("Add", {"x", "f"}, "i");
  model.node("Mul", {"root", "i"}, "s");
  model.node("Tanh", {"s"}, "t");
  model.node("Add", {"t", "one"}, "o");
  model.node("Mul", {"hx", "o"}, "y");
  EXPECT_THAT(operators(model.read()), ElementsAre("gelu_tanh"));
}

TEST(OnnxGraph, ListsErrorFunctionOutsideOfGelu) {
  OnnxModel model({5});
  model.node("Erf", {"x"}, "y");
  const Graph graph = model.read();
  ASSERT_EQ(graph.lacking.size(), 1u);
  EXPECT_EQ(graph.lacking[0].operation, "Erf");
}

/// Products and a softmax over q, k and v, which are the input.
OnnxModel attention_in_parts(bool masked, bool reshapes, bool drops = false) {
  OnnxModel model({2, 6, 4});
  const double root = std::sqrt(0.5);  // the square root of 1 / sqrt(4)
  model.real("scale", root);
  std::string k = "x";
  if (reshapes) {
    model.integers("merged", {-1, 6, 4});
    model.node("Reshape", {"x", "merged"}, "km");
    model.node("Transpose", {"km"}, "kt", {{"perm", Dims{0, 2, 1}}});
    model.integers("apart", {-1, 2, 4, 6});
    model.node("Reshape", {"kt", "apart"}, "kr");
    k = "kr";
  } else {
    model.node("Transpose", {"x"}, "kr", {{"perm", Dims{0, 1, 3, 2}}});
    k = "kr";
  }
  model.node("Mul", {"x", "scale"}, "qs");
  model.node("Mul", {k, "scale"}, "ks");
  model.node("MatMul", {"qs", "ks"}, "scores");
  std::string scores = "scores";
  if (masked) {
    model.real("one", 1);
    model.real("zero", 0);
    model.real("lowest", std::numeric_limits<float>::lowest());
    model.integers("square", {6, 6});
    model.node("Expand", {"one", "square"}, "ones");
    model.node("Trilu", {"ones"}, "seen", {{"upper", std::int64_t{0}}});
    model.node("Equal", {"seen", "zero"}, "unseen");
    model.node("Where", {"unseen", "lowest", "zero"}, "mask");
    model.node("Add", {"scores", "mask"}, "sum");
    scores = "sum";
  }
  model.node("Softmax", {scores}, "p", {{"axis", std::int64_t{-1}}});
  model.real("ratio", 0.1);
  if (drops) model.node("Dropout", {"p", "ratio"}, "kept");
  model.node("MatMul", {drops ? "kept" : "p", "x"}, "y");
  return model;
}

TEST(OnnxGraph, TakesProductsAndSoftmaxAsAttention) {
  for (const bool reshapes : {false, true}) {
    const Graph graph = attention_in_parts(false, reshapes).read();
    EXPECT_THAT(operators(graph), ElementsAre("attention"));
    EXPECT_EQ(last<graph::Attention>(graph).scale, 0.5);
    EXPECT_FALSE(last<graph::Attention>(graph).causal);
    EXPECT_EQ(graph.nodes[0].inputs, (std::vector(3, graph.input)));
  }
}

TEST(OnnxGraph, TakesAParameterAsTheMaskOfAttention) {
  OnnxModel model({2, 6, 4});
  model.proto().mutable_opset_import(0)->set_version(23);
  model.weight("bias", {6, 6});
  model.node("Attention", {"x", "x", "x", "bias"}, "y");
  const Graph graph = model.read();
  EXPECT_THAT(operators(graph), ElementsAre("attention"));
  EXPECT_THAT(parameters(graph), ElementsAre("bias"));
  EXPECT_EQ(graph.value(graph.nodes[0].inputs.at(3)).name, "bias");
}

TEST(OnnxGraph, TakesDropoutOfTheWeightsIntoAttention) {
  const Graph graph = attention_in_parts(true, false, true).read();
  EXPECT_THAT(operators(graph), ElementsAre("attention"));
  EXPECT_TRUE(last<graph::Attention>(graph).causal);
  EXPECT_EQ(last<graph::Attention>(graph).dropout, 0.1);
}

TEST(OnnxGraph, RecognisesTheCausalMask) {
  const Graph graph = attention_in_parts(true, true).read();
  EXPECT_THAT(operators(graph), ElementsAre("attention"));
  EXPECT_TRUE(last<graph::Attention>(graph).causal);
  EXPECT_EQ(graph.nodes[0].inputs.size(), 3u);
}

TEST(OnnxGraph, ReadsMomentumAsPyTorchCountsIt) {
  OnnxModel model({3});
  for (const char* name : {"n.weight", "n.bias", "n.running_mean", "n.running_var"})
    model.weight(name, {3});
  model.node("BatchNormalization", {"x", "n.weight", "n.bias", "n.running_mean", "n.running_var"},
             "y", {{"momentum", 0.9}, {"epsilon", 1e-5}});
  const Graph graph = model.read();
  EXPECT_EQ(last<graph::BatchNorm>(graph).momentum, 0.1);
  EXPECT_EQ(last<graph::BatchNorm>(graph).epsilon, 1e-5);
  EXPECT_THAT(parameters(graph), ElementsAre("n.weight", "n.bias"));
}

TEST(OnnxGraph, PadsAllSidesAlikeForSame) {
  OnnxModel model({1, 8, 8});
  model.weight("w", {1, 1, 3, 5});
  model.node("Conv", {"x", "w"}, "y", {{"auto_pad", "SAME_UPPER"}});
  EXPECT_EQ(output_shape(model.read()), "[batch, 1, 8, 8]");
}

/// x times what is kept of random numbers, which have this shape for each sample.
OnnxModel dropout_in_parts(const Dims& channels) {
  OnnxModel model({4, 3, 3});
  model.node("Shape", {"x"}, "s", {{"end", std::int64_t{1}}});
  model.integers("channels", channels);
  model.node("Concat", {"s", "channels"}, "shape", {{"axis", std::int64_t{0}}});
  model.integer("zero", 0);
  model.node("CastLike", {"zero", "x"}, "z");
  model.node("Expand", {"z", "shape"}, "empty");
  model.node("RandomUniformLike", {"empty"}, "noise");
  model.real("keep", 0.8);
  model.node("CastLike", {"keep", "noise"}, "k");
  model.node("Less", {"noise", "k"}, "kept");
  model.node("CastLike", {"kept", "empty"}, "bernoulli");
  model.node("Div", {"bernoulli", "keep"}, "scaled");
  model.node("Mul", {"x", "scaled"}, "y");
  return model;
}

TEST(OnnxGraph, TakesRandomNumbersInPartsAsDropout) {
  const Graph graph = dropout_in_parts({4, 3, 3}).read();
  EXPECT_THAT(operators(graph), ElementsAre("dropout"));
  EXPECT_EQ(last<graph::Dropout>(graph).probability, 0.2);
}

TEST(OnnxGraph, TakesRandomNumbersOfFewerAxesAsDropoutOfThese) {
  const Graph channels = dropout_in_parts({4, 1, 1}).read();
  EXPECT_THAT(operators(channels), ElementsAre("dropout"));
  EXPECT_EQ(last<graph::Dropout>(channels).drawn_axes, 2);
  EXPECT_EQ(last<graph::Dropout>(dropout_in_parts({1, 1, 1}).read()).drawn_axes, 1);
  EXPECT_EQ(last<graph::Dropout>(dropout_in_parts({4, 3, 3}).read()).drawn_axes, 0);
  const Graph rows = dropout_in_parts({1, 3, 3}).read();
  ASSERT_EQ(rows.lacking.size(), 1u);
  EXPECT_THAT(rows.lacking[0].reason, testing::HasSubstr("[batch, 1, 3, 3]"));
}

TEST(OnnxGraph, ListsDropoutThatWasExportedForInference) {
  OnnxModel model({4, 3, 3});
  model.real("ratio", 0.1);
  model.node("Dropout", {"x", "ratio"}, "y");
  const Graph graph = model.read();
  ASSERT_EQ(graph.lacking.size(), 1u);
  EXPECT_THAT(graph.lacking[0].reason, testing::HasSubstr("evaluation mode"));
  EXPECT_THAT(graph.lacking[0].remedy, testing::HasSubstr("net.train()"));
}

/// A batch norm, whose node `mark` changes.
Graph with_batch_norm(const std::function<void(onnx_wire::Node&)>& mark) {
  OnnxModel model({3});
  for (const char* name : {"n.weight", "n.bias", "n.running_mean", "n.running_var"})
    model.weight(name, {3});
  mark(model.node("BatchNormalization",
                  {"x", "n.weight", "n.bias", "n.running_mean", "n.running_var"}, "y"));
  return model.read();
}

TEST(OnnxGraph, ListsBatchNormThatWasExportedForInference) {
  const auto attribute = [](std::int64_t mode) {
    return [mode](onnx_wire::Node& node) {
      *node.add_attribute() = OnnxAttribute("training_mode", mode).proto;
    };
  };
  const auto metadata = [](const std::string& operation) {
    return [operation](onnx_wire::Node& node) {
      auto& entry = *node.add_metadata_props();
      entry.set_key("pkg.torch.onnx.fx_node");
      entry.set_value("%n : call_function[target=torch.ops.aten." + operation + ".default](…)");
    };
  };
  const auto named = [](const char* name) {
    return [name](onnx_wire::Node& node) { node.set_name(name); };
  };
  for (const Graph& graph :
       {with_batch_norm(attribute(0)),
        with_batch_norm(metadata("_native_batch_norm_legit_no_training")),
        with_batch_norm(named("node__native_batch_norm_legit_no_training__0"))}) {
    ASSERT_EQ(graph.lacking.size(), 1u);
    EXPECT_THAT(graph.lacking[0].reason, testing::HasSubstr("evaluation mode"));
    EXPECT_THAT(graph.lacking[0].remedy, testing::HasSubstr("torch.onnx.export(net.train()"));
  }
  for (const Graph& graph : {with_batch_norm(attribute(1)),
                             with_batch_norm(metadata("_native_batch_norm_legit_functional")),
                             with_batch_norm(named("norm"))})
    EXPECT_TRUE(graph.lacking.empty());
}

TEST(OnnxGraph, NotesThatDropoutMayBeMissingWhereNoOperatorShowsTheMode) {
  const auto notes = [](const std::string& operation) {
    OnnxModel model({3});
    model.weight("w", {3});
    model.signature("a: PARAMETER target='w'\n");
    model.node("Mul", {"x", "w"}, "p");
    model.node(operation, {"p"}, "y");
    return model.read().notes;
  };
  EXPECT_THAT(notes("Relu"), ElementsAre(testing::HasSubstr("has no dropout")));
  EXPECT_THAT(notes("Elu"), testing::IsEmpty());  // the model is refused
  EXPECT_THAT(with_batch_norm([](onnx_wire::Node&) {}).notes,
              testing::Not(testing::Contains(testing::HasSubstr("dropout"))));
  EXPECT_THAT(graph::read_graph(graph_file("vgg", ".onnx")).notes, testing::IsEmpty());
}

TEST(OnnxGraph, TakesLayersOfSequencesAsThoseOfImages) {
  OnnxModel model({4, 11});
  model.weight("w", {6, 2, 3});
  model.node("Conv", {"x", "w"}, "c",
             {{"group", std::int64_t{2}}, {"pads", Dims{2, 2}}, {"dilations", Dims{2}}});
  model.node("MaxPool", {"c"}, "m",
             {{"kernel_shape", Dims{2}}, {"strides", Dims{2}}, {"ceil_mode", std::int64_t{1}}});
  model.node("AveragePool", {"m"}, "a", {{"kernel_shape", Dims{3}}, {"strides", Dims{3}}});
  model.node("GlobalAveragePool", {"a"}, "y");
  const Graph graph = model.read();
  ASSERT_TRUE(graph.lacking.empty()) << graph.lacking[0].reason;
  EXPECT_THAT(operators(graph),
              ElementsAre("reshape", "convolution", "reshape", "reshape", "slice", "concatenate",
                          "max_pool", "reshape", "reshape", "average_pool", "reshape", "reshape",
                          "adaptive_average_pool", "reshape"));
  EXPECT_EQ(to_string(graph.value(graph.nodes[2].output).shape), "[batch, 6, 11]");
  EXPECT_EQ(to_string(graph.value(graph.nodes[7].output).shape), "[batch, 6, 6]");
  EXPECT_EQ(output_shape(graph), "[batch, 6, 1]");
  EXPECT_THAT(parameters(graph), ElementsAre("w"));
}

TEST(OnnxGraph, RefusesWindowsOfSequencesWithOtherAxes) {
  for (const OnnxAttribute& wrong :
       {OnnxAttribute("strides", Dims{1, 1}), OnnxAttribute("pads", Dims{1, 1, 1, 1}),
        OnnxAttribute("pads", Dims{1, 0}), OnnxAttribute("pads", Dims{1})}) {
    OnnxModel model({4, 11});
    model.node("MaxPool", {"x"}, "y", {{"kernel_shape", Dims{3}}, wrong});
    EXPECT_EQ(model.read().lacking.size(), 1u) << wrong.proto.name();
  }
  OnnxModel model({4, 11});
  model.weight("w", {6, 4, 3, 1});
  model.node("Conv", {"x", "w"}, "y");
  EXPECT_THAT(model.read().lacking.at(0).reason, testing::HasSubstr("[6, 4, 3, 1]"));
}

TEST(OnnxGraph, ListsWhatTroupeLacksAndReadsOn) {
  OnnxModel model({3, 8, 8});
  model.weight("w", {4, 3, 3, 3});
  model.node("Elu", {"x"}, "e");
  model.node("Conv", {"e", "w"}, "c");
  auto& elu = *model.graph().mutable_node(0);
  auto& scopes = *elu.add_metadata_props();
  scopes.set_key("pkg.torch.onnx.name_scopes");
  scopes.set_value("['', 'act', 'elu']");
  auto& trace = *elu.add_metadata_props();
  trace.set_key("pkg.torch.onnx.stack_trace");
  trace.set_value(
      "File \"/home/me/net.py\", line 12, in forward\n  File \"/lib/torch/nn.py\", "
      "line 3, in forward");
  model.node("Relu", {"c"}, "y");
  Graph graph = model.read();
  ASSERT_EQ(graph.lacking.size(), 1u);
  EXPECT_EQ(graph.lacking[0].operation, "Elu");
  EXPECT_EQ(graph.lacking[0].module, "act");
  EXPECT_EQ(graph.lacking[0].source, "net.py, line 12");
  EXPECT_TRUE(operators(graph).empty());  // no shape is known behind it

  auto& stated = *model.graph().add_value_info();
  stated = model.graph().input(0);
  stated.set_name("e");
  graph = model.read();
  EXPECT_THAT(operators(graph), ElementsAre("convolution", "relu"));
}

TEST(OnnxGraph, ListsTheParametersOfOperatorsThatAreLacking) {
  OnnxModel model({3, 8, 8});
  model.weight("w", {4, 3, 3, 3});
  model.weight("up", {4, 4, 2, 2});
  model.weight("scale", {4});
  model.signature(
      "a: PARAMETER target='w'\nb: PARAMETER target='up'\nc: BUFFER target='scale' "
      "persistent=True\n");
  model.node("Conv", {"x", "w"}, "c");
  model.node("ConvTranspose", {"c", "up", "scale"}, "y");
  const Graph graph = model.read();
  EXPECT_THAT(parameters(graph), ElementsAre("w", "up"));
  ASSERT_EQ(graph.constants.size(), 1u);
  EXPECT_EQ(graph.constants[0].name, "scale");
}

TEST(OnnxGraph, ReadsTensorsOfTheSignatureThatAreNoParametersAsConstants) {
  OnnxModel model({3});
  model.weight("scale", {3}, {1, 2, 4});
  model.weight("weight", {3}, {1, 2, 4});
  model.signature(
      "p_weight: PARAMETER target='weight'\nb_scale: BUFFER target='scale' persistent=True\n"
      "b_mask: BUFFER target='mask' persistent=True\n");
  model.node("Mul", {"x", "scale"}, "s");
  model.node("Mul", {"s", "weight"}, "y");
  const Graph graph = model.read();
  EXPECT_THAT(parameters(graph), ElementsAre("weight"));
  ASSERT_EQ(graph.constants.size(), 1u);
  EXPECT_EQ(graph.constants[0].name, "scale");
  EXPECT_THAT(graph.notes, testing::Contains(testing::HasSubstr("mask")));
}

TEST(OnnxGraph, FindsTheNameOfTiedParametersByTheirModules) {
  OnnxModel model({4}, 7);
  model.weight("head.weight", {5, 3});
  model.signature("a: PARAMETER target='head.weight'\nb: PARAMETER target='table.weight'\n");
  auto& lookup = model.node("Gather", {"head.weight", "x"}, "words");
  auto& scopes = *lookup.add_metadata_props();
  scopes.set_key("pkg.torch.onnx.name_scopes");
  scopes.set_value("['', 'table', 'embedding']");
  model.node("Transpose", {"head.weight"}, "t", {{"perm", Dims{1, 0}}});
  model.node("MatMul", {"words", "t"}, "y");
  const Graph graph = model.read();
  ASSERT_EQ(graph.aliases.size(), 1u);
  EXPECT_EQ(graph.aliases[0].name, "table.weight");
  EXPECT_EQ(graph.aliases[0].of, "head.weight");
}

}  // namespace
}  // namespace troupe::testing_ops
