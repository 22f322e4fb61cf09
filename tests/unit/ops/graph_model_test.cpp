#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/graph/builder.h"
#include "ops/graph/model_of.h"
#include "ops/graph/read_graph.h"
#include "ops/graph/shapes.h"
#include "ops/nn/network.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"

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
/// A mask of one number: each score has the same, so it changes nothing.
TEST(GraphModel, TakesAMaskWithoutAxesAlsoWithDropout) {
  for (const double dropout : {0.0, 0.5}) {
    std::vector<float> first;
    for (const double number : {0.0, 3.0}) {
      GraphBuilder builder;
      const ValueId x = builder.graph.input =
          builder.add_value({.kind = Value::Kind::input,
                             .name = "x",
                             .shape = {{.per_sample = 1}, fixed(3), fixed(2)}});
      const ValueId mask = builder.add_value({.kind = Value::Kind::constant,
                                              .name = "mask",
                                              .dtype = DType::f64,
                                              .shape = {},
                                              .constant = Tensor::from<double>({}, {&number, 1})});
      builder.graph.output =
          builder.add(Attention{.scale = 0.7, .dropout = dropout}, {x, x, x, mask}, {.name = "a"});
      Network network(model_of(std::make_shared<const Graph>(builder.graph), {}), 0, 1, DType::f32,
                      Stream{});
      network.use(initial_state(network.spec(), DType::f32, 1));
      Tensor samples = Tensor::empty(Shape{2, 3, 2}, DType::f32, Device::cpu());
      for (int i = 0; i < 12; ++i) samples.data<float>()[i] = static_cast<float>(i % 5) - 2;
      const Tensor y = network.forward(samples, {.seed = 1}, true)->result();
      if (first.empty()) first.assign(y.elements<float>().begin(), y.elements<float>().end());
      for (int i = 0; i < 12; ++i)
        EXPECT_NEAR(y.data<float>()[i], first[static_cast<std::size_t>(i)], 1e-5) << dropout;
    }
  }
}

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
  Tensor lost = Tensor::from<float>({1}, std::vector{9.0f});
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
  graph.constants.push_back({"tied", graph.constants[0].tensor});
  EXPECT_EQ(fixed_names(spec_of(graph)), (std::vector<std::string>{"scale", "tied"}));
  graph.constants.pop_back();
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

/// Runs that were started earlier have them in their checkpoints.
TEST(GraphDigest, OfEachOperatorIsWhatItWas) {
  const std::vector<std::pair<Operator, std::string_view>> known{
      {Convolution{{.kernel_h = 3, .stride_h = 2, .padding_w = 1, .groups = 4}}, "eea7d5524327"},
      {Linear{}, "f2ac7c43a3f0"},
      {BatchNorm{.epsilon = 0.5, .momentum = 0.25, .counter = "n"}, "657f889b4417"},
      {LayerNorm{.features = 3, .epsilon = 0.5}, "2e6fb6cadfd9"},
      {Embedding{.padding_row = 3}, "f9bb9113783e"},
      {Embedding{}, "d3a636d5c19e"},
      {Relu{}, "17595868a6a3"},
      {Activate{ActivationFunction::gelu}, "26c5ee35dcb0"},
      {Clamp{.low = -1, .high = 6}, "ed9cca42dbf3"},
      {Arithmetic{ArithmeticOperation::divide}, "23bf71a0687b"},
      {Affine{.factor = 2, .offset = 0.5}, "2a28046dca3b"},
      {Matmul{}, "e4769b83eead"},
      {Attention{.causal = true, .scale = 0.125, .dropout = 0.5}, "65efa7444f8e"},
      {Attention{.scale = 0.125}, "8c55ba81b525"},
      {Softmax{.axis = 1, .logarithm = true}, "a0d1bb9d5124"},
      {Reduce{.axes = {1, 2}, .keeps_axes = true, .mean = false}, "56b45357af28"},
      {MaxPool{{.kernel_h = 3, .kernel_w = 2, .padding_w = 1}}, "e05e4d0c5360"},
      {AveragePool{{.kernel_h = 3, .kernel_w = 2, .padding_w = 1}}, "979d0c0fbc7f"},
      {AdaptiveAveragePool{.out_h = 2}, "e254bf6cd337"},
      {Reshape{.shape = {fixed(2)}}, "59f953aaca9e"},
      {Expand{.shape = {fixed(2)}}, "60de2d535e99"},
      {Permute{.axes = {0, 2, 1}}, "50ae421d7e8e"},
      {Slice{.axis = 1, .start = 2, .count = 3}, "01ab52bfe1dc"},
      {Concatenate{.axis = 1}, "7fa0db0abf90"},
      {Dropout{.probability = 0.25, .drawn_axes = 2}, "b7eff79dc32a"},
      {Dropout{.probability = 0.25}, "aae4f73c4f1c"}};
  std::set<std::size_t> met;
  for (const auto& [operation, expected] : known) {
    Graph graph;
    graph.values = {{.kind = Value::Kind::input, .shape = {{.per_sample = 1}, fixed(2)}}, {}};
    graph.input = {0};
    graph.output = {1};
    graph.nodes = {{.operation = operation, .inputs = {graph.input}, .output = graph.output}};
    EXPECT_EQ(digest(graph).substr(0, 12), expected) << name_of(operation);
    met.insert(operation.index());
  }
  EXPECT_EQ(met.size(), std::variant_size_v<Operator>) << "an operator is missing here";
}

/// What a training pass through a model gives, in f64.
struct Passed {
  Tensor y, x_grad;
  std::map<std::string, Tensor> gradients;  ///< of parameters, by name
};

Passed passed(const GraphBuilder& builder, const Tensor& samples, DType dtype = DType::f64) {
  Model model = model_of(std::make_shared<const Graph>(builder.graph), {});
  const std::size_t blocks = model.blocks.size();
  Network network(std::move(model), 0, blocks, dtype, Stream{});
  network.use(initial_state(network.spec(), dtype, 1));
  const auto pass = network.forward(samples, {.seed = 1}, true);
  Passed result{.y = cast(pass->result(), DType::f64)};
  Tensor grad = Tensor::empty(result.y.shape(), DType::f64, Device::cpu());
  std::ranges::fill(grad.elements<double>(), 1.0);
  for (std::int64_t i = 0; i < grad.element_count(); i += 3) grad.data<double>()[i] = -1.5;
  result.x_grad = cast(network.backward(*pass, cast(grad, dtype)), DType::f64);
  const Tensor gradients = cast(pass->gradients, DType::f64);
  for (const ParameterSpec& parameter : network.spec().parameters()) {
    const auto of_parameter = gradients.elements<double>().subspan(
        static_cast<std::size_t>(parameter.offset),
        static_cast<std::size_t>(parameter.shape.element_count()));
    result.gradients[parameter.name] = Tensor::from<double>(parameter.shape, of_parameter);
  }
  return result;
}

/// Numbers between -1 and 1, the same each time.
Tensor numbers(const Shape& shape, double begin) {
  Tensor tensor = Tensor::empty(shape, DType::f64, Device::cpu());
  for (std::int64_t i = 0; i < tensor.element_count(); ++i)
    tensor.data<double>()[i] = std::sin(begin + 1.7 * static_cast<double>(i));
  return tensor;
}

void expect_near(const Tensor& found, const Tensor& expected) {
  ASSERT_EQ(found.shape(), expected.shape());
  for (std::int64_t i = 0; i < found.element_count(); ++i)
    EXPECT_NEAR(found.data<double>()[i], expected.data<double>()[i], 1e-12) << i;
}

ValueId tokens_in(GraphBuilder& builder) {
  return builder.graph.input =
             builder.add_value({.kind = Value::Kind::input,
                                .name = "x",
                                .dtype = DType::f64,
                                .shape = {{.per_sample = 1}, fixed(3), fixed(2)}});
}

/// A parameter whose initial value is given.
ValueId given(GraphBuilder& builder, const std::string& name, const Tensor& value) {
  auto read = builder.graph.weights.read;
  builder.graph.weights.read = [read, name, value](const std::string& wanted) {
    return wanted == name ? value : read(wanted);
  };
  return builder.add_value({.kind = Value::Kind::parameter,
                            .name = name,
                            .dtype = DType::f64,
                            .shape = sizes_of(value.shape())});
}

// softmax(0.7 s + 0.3 s) v is softmax(s) v, also for the gradient that goes through the mask.
TEST(GraphModel, AddsAMaskThatIsComputedFromTheSamples) {
  const Tensor samples = numbers({2, 3, 2}, 0.5);
  GraphBuilder masked, plain;
  const ValueId x = tokens_in(masked);
  const ValueId scores = masked.add(
      Matmul{}, {x, masked.add(Permute{{0, 2, 1}}, {x}, {.name = "t"})}, {.name = "scores"});
  const ValueId mask = masked.add(Affine{0.3, 0.0}, {scores}, {.name = "mask"});
  masked.graph.output = masked.add(Attention{.scale = 0.7}, {x, x, x, mask}, {.name = "a"});
  const ValueId z = tokens_in(plain);
  plain.graph.output = plain.add(Attention{.scale = 1.0}, {z, z, z}, {.name = "a"});
  const Passed found = passed(masked, samples), expected = passed(plain, samples);
  expect_near(found.y, expected.y);
  expect_near(found.x_grad, expected.x_grad);
}

TEST(GraphModel, TrainsAMaskOfAttentionThatIsAParameter) {
  const Tensor samples = numbers({2, 3, 2}, 0.5);
  for (const bool causal : {false, true}) {
    const auto with = [&](const Tensor& bias, bool is_parameter) {
      GraphBuilder builder;
      const ValueId x = tokens_in(builder);
      const ValueId mask = is_parameter ? given(builder, "bias", bias)
                                        : builder.add_value({.kind = Value::Kind::constant,
                                                             .name = "bias",
                                                             .dtype = DType::f64,
                                                             .shape = sizes_of(bias.shape()),
                                                             .constant = bias});
      builder.graph.output =
          builder.add(Attention{.causal = causal, .scale = 0.7}, {x, x, x, mask}, {.name = "a"});
      return passed(builder, samples);
    };
    const Tensor bias = numbers({3, 3}, 2.0);
    const Passed found = with(bias, true), expected = with(bias, false);
    expect_near(found.y, expected.y);
    expect_near(found.x_grad, expected.x_grad);
    const auto loss = [&](std::int64_t element, double step) {
      Tensor moved = bias.clone();
      moved.data<double>()[element] += step;
      const Tensor y = with(moved, false).y;
      double sum = 0;
      for (std::int64_t i = 0; i < y.element_count(); ++i)
        sum += (i % 3 == 0 ? -1.5 : 1.0) * y.data<double>()[i];
      return sum;
    };
    for (std::int64_t e = 0; e < 9; ++e)
      EXPECT_NEAR(found.gradients.at("bias").data<double>()[e],
                  (loss(e, 1e-5) - loss(e, -1e-5)) / 2e-5, 1e-8)
          << e;
  }
}

/// Attention of three tokens with a mask that is a parameter, or a constant.
Passed with_mask(const Tensor& mask, bool is_parameter, const Attention& attention, DType dtype) {
  GraphBuilder builder;
  const ValueId x = tokens_in(builder);
  const ValueId id = is_parameter ? given(builder, "mask", mask)
                                  : builder.add_value({.kind = Value::Kind::constant,
                                                       .name = "mask",
                                                       .dtype = DType::f64,
                                                       .shape = sizes_of(mask.shape()),
                                                       .constant = mask});
  builder.graph.output = builder.add(attention, {x, x, x, id}, {.name = "a"});
  return passed(builder, cast(numbers({2, 3, 2}, 0.5), dtype), dtype);
}

TEST(GraphModel, TrainsAMaskOfAttentionWithoutAxes) {
  const Tensor mask = Tensor::from<double>({}, std::vector{0.5});
  const Passed found = with_mask(mask, true, {.scale = 0.7}, DType::f64),
               expected = with_mask(mask, false, {.scale = 0.7}, DType::f64);
  expect_near(found.y, expected.y);
  expect_near(found.x_grad, expected.x_grad);
  EXPECT_NEAR(found.gradients.at("mask").data<double>()[0], 0.0, 1e-12);  // all scores move alike
}

// Also where only the mask and causality together hide all keys. PyTorch gives zeroes, in the value
// and in all gradients; other tokens are as with a constant mask, also with the lowest number.
TEST(GraphModel, GivesZeroesToATokenThatSeesNoneByATrainedMask) {
  const double hidden = -std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::f64, DType::f32})
    for (const bool causal : {false, true})
      for (const double dropout : {0.0, 0.5}) {
        const double lowest = dtype == DType::f64 ? std::numeric_limits<double>::lowest()
                                                  : double{std::numeric_limits<float>::lowest()};
        const int row = causal ? 0 : 1;
        const Tensor mask = Tensor::from<double>(
            {3, 3},
            causal ? std::vector{hidden, 1.0, 2.0, 3.0, 0.5, hidden, hidden, lowest, lowest}
                   : std::vector{0.0, 1.0, hidden, hidden, hidden, hidden, hidden, lowest, lowest});
        const Attention attention{.causal = causal, .scale = 0.7, .dropout = dropout};
        const Passed found = with_mask(mask, true, attention, dtype),
                     expected = with_mask(mask, false, attention, dtype);
        const auto slopes = found.gradients.at("mask").elements<double>();
        const double bound = dtype == DType::f64 ? 1e-12 : 1e-5;
        for (std::size_t i = 0; i < 12; ++i) {
          EXPECT_NEAR(found.y.elements<double>()[i], expected.y.elements<double>()[i], bound);
          EXPECT_NEAR(found.x_grad.elements<double>()[i], expected.x_grad.elements<double>()[i],
                      bound);
        }
        for (int i = 0; i < 2; ++i) EXPECT_EQ(found.y.data<double>()[row * 2 + i], 0.0);
        for (const double slope : slopes) EXPECT_TRUE(std::isfinite(slope));
        for (const double slope : slopes.subspan(static_cast<std::size_t>(row) * 3, 3))
          EXPECT_EQ(slope, 0.0);
      }
}

/// y = (x A + b) C + b: the gradient of b is the sum over rows of grad and of grad C.
TEST(GraphModel, SumsTheGradientsOfABiasThatTwoLayersShare) {
  GraphBuilder builder;
  const ValueId x = tokens_in(builder);
  const Tensor c = numbers({2, 2}, 1.0);
  const ValueId bias = given(builder, "bias", numbers({2}, 3.0));
  const ValueId middle = builder.add(Linear{}, {x, given(builder, "a", numbers({2, 2}, 0.0)), bias},
                                     {.name = "first"});
  builder.graph.output =
      builder.add(Linear{}, {middle, given(builder, "c", c), bias}, {.name = "second"});
  const Tensor samples = numbers({2, 3, 2}, 0.5);
  const Passed found = passed(builder, samples, DType::f32);
  double expected[2] = {0, 0};
  for (std::int64_t i = 0; i < 12; ++i) {
    const double slope = i % 3 == 0 ? -1.5 : 1.0;
    expected[i % 2] += slope;
    for (std::int64_t j = 0; j < 2; ++j) expected[j] += slope * c.data<double>()[i % 2 * 2 + j];
  }
  for (std::int64_t j = 0; j < 2; ++j)
    EXPECT_NEAR(found.gradients.at("bias").data<double>()[j], expected[j], 1e-5);
}

TEST(GraphModel, RefusesRunningStatisticsThatTwoLayersShare) {
  GraphBuilder builder;
  ValueId x = builder.graph.input = builder.add_value(
      {.kind = Value::Kind::input, .name = "x", .shape = {{.per_sample = 1}, fixed(2)}});
  const auto vector = [&](Value::Kind kind, const char* name) {
    return builder.add_value({.kind = kind, .name = name, .shape = {fixed(2)}});
  };
  const ValueId mean = vector(Value::Kind::buffer, "mean"), var = vector(Value::Kind::buffer, "v");
  for (const char* name : {"one", "two"})
    x = builder.add(
        BatchNorm{},
        {x, vector(Value::Kind::parameter, name), vector(Value::Kind::parameter, "b"), mean, var},
        {.name = "norm"});
  builder.graph.output = x;
  try {
    (void)model_of(std::make_shared<const Graph>(builder.graph), {});
    FAIL() << "the model was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.message().find("shares mean with another layer"), std::string::npos);
  }
}

}  // namespace
}  // namespace troupe::graph
