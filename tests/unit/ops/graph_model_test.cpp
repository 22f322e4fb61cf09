#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "ops/graph/builder.h"
#include "ops/graph/model_of.h"
#include "ops/graph/read_graph.h"
#include "ops/graph/shapes.h"
#include "ops/nn/network.h"
#include "runtime/error.h"

namespace troupe::graph {
namespace {

/// Sequences in an array [samples, 8, 6] are stored as images of one channel.
TEST(GraphModel, TakesSequencesAsArraysStoreThem) {
  GraphBuilder builder;
  const ValueId x = builder.add_value(
      {.kind = Value::Kind::input, .name = "x", .shape = {{.per_sample = 1}, fixed(8), fixed(6)}});
  const ValueId output = builder.add(Reduce{.axes = {1}}, {x}, {.name = "mean"});
  builder.graph.input = x;
  builder.graph.output = output;
  Network network(model_of(std::make_shared<const Graph>(builder.graph), {}), 0, 1, DType::f32,
                  Stream{});
  network.use(initial_state(network.spec(), DType::f32, 1));
  Tensor samples = Tensor::empty(Shape{2, 8, 6}, DType::f32, Device::cpu());
  for (int i = 0; i < 96; ++i) samples.data<float>()[i] = static_cast<float>(i);
  const Tensor mean = network.evaluate(samples.reshape(Shape{2, 1, 8, 6}));
  EXPECT_EQ(mean.shape(), (Shape{2, 6}));
  EXPECT_EQ(mean.data<float>()[0], 21.0f);  // (0 + 6 + ... + 42) / 8
  EXPECT_EQ(mean.data<float>()[11], 74.0f);
}

/// nn.MultiheadAttention: Xavier's bound sqrt(6 / (48 + 16)) for the weight of the projections of
/// its inputs, and biases of 0.
TEST(GraphModel, DrawsTheProjectionsOfAttentionAsPyTorch) {
  GraphBuilder builder;
  const auto parameter = [&](const char* name, Sizes shape) {
    return builder.add_value(
        {.kind = Value::Kind::parameter, .name = name, .shape = std::move(shape)});
  };
  const ValueId x = builder.add_value(
      {.kind = Value::Kind::input, .name = "x", .shape = {{.per_sample = 1}, fixed(16)}});
  const ValueId in = builder.add(Linear{},
                                 {x, parameter("attn.in_proj_weight", {fixed(48), fixed(16)}),
                                  parameter("attn.in_proj_bias", {fixed(48)})},
                                 {.name = "in"});
  const ValueId value = builder.add(Slice{1, 32, 16}, {in}, {.name = "value"});
  const ValueId out = builder.add(Linear{},
                                  {value, parameter("attn.out_proj.weight", {fixed(16), fixed(16)}),
                                   parameter("attn.out_proj.bias", {fixed(16)})},
                                  {.name = "out"});
  const ValueId last = builder.add(Linear{},
                                   {out, parameter("head.out_proj.weight", {fixed(3), fixed(16)}),
                                    parameter("head.out_proj.bias", {fixed(3)})},
                                   {.name = "last"});
  builder.graph.input = x;
  builder.graph.output = last;
  const Model model = model_of(std::make_shared<const Graph>(builder.graph), {.initialise = true});
  StateSpec spec;
  for (const auto& block : model.blocks) block->declare(spec);
  std::map<std::string, float> largest;
  for (const NamedTensor& tensor : named_tensors(spec, *initial_state(spec, DType::f32, 1), false))
    for (const float number : tensor.tensor.elements<float>())
      largest[tensor.name] = std::max(largest[tensor.name], std::abs(number));
  EXPECT_NEAR(largest.at("attn.in_proj_weight"), std::sqrt(6.0 / 64), 0.01);
  EXPECT_EQ(largest.at("attn.in_proj_bias"), 0);
  EXPECT_EQ(largest.at("attn.out_proj.bias"), 0);
  EXPECT_NEAR(largest.at("attn.out_proj.weight"), 0.25, 0.02);
  EXPECT_GT(largest.at("head.out_proj.bias"), 0);
}

/// The new weight of nn.Embedding(4, 2, padding_idx=1) has zeroes in row 1.
TEST(GraphModel, RefusesToDrawAWeightWithARowOfPadding) {
  GraphBuilder builder;
  builder.graph.input = builder.add_value(
      {.kind = Value::Kind::input, .name = "x", .dtype = DType::i64, .shape = {{.per_sample = 1}}});
  const ValueId weight = builder.add_value(
      {.kind = Value::Kind::parameter, .name = "e.weight", .shape = {fixed(4), fixed(2)}});
  builder.graph.output =
      builder.add(Embedding{.padding_row = 1}, {weight, builder.graph.input}, {.name = "e"});
  const Model model = model_of(std::make_shared<const Graph>(builder.graph), {.initialise = true});
  StateSpec spec;
  try {
    model.blocks[0]->declare(spec);
    FAIL() << "it was drawn";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("e.weight has a padding_idx"), std::string::npos);
    EXPECT_NE(error.remedy().find("initialise"), std::string::npos);
  }
}

/// Self-attention of three tokens, of which the second sees none; a weight of 0 elements is
/// undefined for it. PyTorch gives zeroes, in its value and all gradients.
TEST(GraphModel, GivesZeroesToATokenThatSeesNoneAlsoWithDropout) {
  for (const double dropout : {0.0, 0.5}) {
    GraphBuilder builder;
    builder.graph.input = builder.add_value({.kind = Value::Kind::input,
                                             .name = "x",
                                             .shape = {{.per_sample = 1}, fixed(3), fixed(2)}});
    const double hidden = -std::numeric_limits<double>::infinity();
    const ValueId mask = builder.add_value(
        {.kind = Value::Kind::constant,
         .name = "mask",
         .dtype = DType::f64,
         .shape = {fixed(3), fixed(3)},
         .constant = Tensor::from<double>(
             {3, 3}, std::vector<double>{0, 0, hidden, hidden, hidden, hidden, 0, 0, 0})});
    const ValueId x = builder.graph.input;
    builder.graph.output =
        builder.add(Attention{.scale = 0.7, .dropout = dropout}, {x, x, x, mask}, {.name = "a"});
    Network network(model_of(std::make_shared<const Graph>(builder.graph), {}), 0, 1, DType::f32,
                    Stream{});
    network.use(initial_state(network.spec(), DType::f32, 1));
    Tensor samples = Tensor::empty(Shape{2, 3, 2}, DType::f32, Device::cpu());
    for (int i = 0; i < 12; ++i) samples.data<float>()[i] = static_cast<float>(i % 5) - 2;
    const auto pass = network.forward(samples, {.seed = 1}, true);
    const Tensor y = pass->result();
    for (const int i : {2, 3, 8, 9}) EXPECT_EQ(y.data<float>()[i], 0.0f) << dropout;
    Tensor grad = Tensor::empty(Shape{2, 3, 2}, DType::f32, Device::cpu());
    std::ranges::fill(grad.elements<float>(), 1.0f);
    const Tensor slopes = network.backward(*pass, grad);
    for (const Tensor& numbers : {y, slopes})
      for (const float number : numbers.elements<float>())
        EXPECT_TRUE(std::isfinite(number)) << dropout;
  }
}

/// A chain of linear layers a, b, c, d, e of which a and c, and b and d share their weight.
TEST(GraphModel, HasLayersWhoseTiesOverlapInOneBlock) {
  GraphBuilder builder;
  builder.graph.input = builder.add_value(
      {.kind = Value::Kind::input, .name = "x", .shape = {{.per_sample = 1}, fixed(4)}});
  std::map<std::string, ValueId> weights;
  for (const char* name : {"one", "two", "own"})
    weights[name] = builder.add_value(
        {.kind = Value::Kind::parameter, .name = name, .shape = {fixed(4), fixed(4)}});
  ValueId at = builder.graph.input;
  for (const char* weight : {"one", "two", "one", "two", "own"})
    at = builder.add(Linear{}, {at, weights[weight], {}}, {.name = weight});
  builder.graph.output = at;
  const Model model = model_of(std::make_shared<const Graph>(builder.graph), {});
  ASSERT_EQ(model.blocks.size(), 2u);
  StateSpec first, second;
  model.blocks[0]->declare(first);
  model.blocks[1]->declare(second);
  ASSERT_EQ(first.parameters().size(), 2u);
  ASSERT_EQ(second.parameters().size(), 1u);
  EXPECT_EQ(second.parameters()[0].name, "own");
}

/// x * scale, and tensors of the state_dict that no node reads: "lost" with another name, "buffer".
Graph graph_with_constants(float scale) {
  GraphBuilder builder;
  Graph& graph = builder.graph;
  graph.input = builder.add_value(
      {.kind = Value::Kind::input, .name = "x", .shape = {{.per_sample = 1}, fixed(2)}});
  const Tensor value = Tensor::from<double>({2}, std::vector<double>{scale, 3});
  const ValueId factor = builder.add_value({.kind = Value::Kind::constant,
                                            .name = "scale",
                                            .dtype = DType::f64,
                                            .shape = {fixed(2)},
                                            .constant = value});
  graph.output = builder.add(Arithmetic{ArithmeticOperation::multiply}, {graph.input, factor},
                             {.name = "mul"});
  const Tensor lost = Tensor::from<float>({1}, std::vector{9.0f});
  graph.constants = {{"scale", value}, {"buffer", lost}};
  graph.weights.tensors = {{"lost", DType::f32, Shape{1}}};
  graph.weights.read = [lost](const std::string&) { return lost; };
  graph.aliases = {{"lost_too", "lost"}};
  return graph;
}

StateSpec spec_of(const Graph& graph) {
  StateSpec spec;
  for (const auto& block : model_of(std::make_shared<const Graph>(graph), {}).blocks)
    block->declare(spec);
  return spec;
}

TEST(GraphModel, HasAllNamesOfTensorsThatNoNodeReads) {
  std::map<std::string, float> found;
  const StateSpec spec = spec_of(graph_with_constants(2));
  for (const NamedTensor& tensor : named_tensors(spec, *initial_state(spec, DType::f32, 1), false))
    if (tensor.name != "scale") found[tensor.name] = tensor.tensor.elements<float>()[0];
  EXPECT_EQ(found, (std::map<std::string, float>{{"buffer", 9}, {"lost", 9}, {"lost_too", 9}}));
}

TEST(GraphModel, FixesTheConstantsThatNodesRead) {
  Graph graph = graph_with_constants(2);
  const auto fixed_names = [](const StateSpec& spec) {
    std::vector<std::string> names;
    for (const ConstantSpec& constant : spec.constants())
      if (constant.fixed) names.push_back(constant.name);
    return names;
  };
  EXPECT_EQ(fixed_names(spec_of(graph)), std::vector<std::string>{"scale"});
  graph.folds_constants = true;
  EXPECT_EQ(fixed_names(spec_of(graph)), (std::vector<std::string>{"scale", "buffer"}));
}

/// Files of weights have the values of tensors with a key; nothing else tells those of literals.
TEST(GraphDigest, IsOfOperatorsAndOfLiterals) {
  Graph one = graph_with_constants(2), two = graph_with_constants(5);
  EXPECT_EQ(digest(one), digest(two));
  EXPECT_EQ(digest(one).size(), 64u);
  EXPECT_TRUE(literals(one).empty());
  one.constants.clear();
  two.constants.clear();
  EXPECT_NE(digest(one), digest(two));
  EXPECT_EQ(operators_in(digest(one)), operators_in(digest(two)));
  EXPECT_EQ(literals(one), std::vector<std::string>{"scale"});
  two.nodes[0].operation = Arithmetic{ArithmeticOperation::add};
  EXPECT_NE(operators_in(digest(one)), operators_in(digest(two)));
}

}  // namespace
}  // namespace troupe::graph
