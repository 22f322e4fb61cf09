#include "ops/graph/early_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/graph/builder.h"
#include "ops/graph/shapes.h"

namespace troupe::graph {
namespace {

using testing::ElementsAre;

/// Graphs of a value [batch, 8, 6].
class EarlySlices : public testing::Test {
 protected:
  EarlySlices() {
    x = builder.add_value({.kind = Value::Kind::input,
                           .name = "x",
                           .shape = {{.per_sample = 1}, fixed(8), fixed(6)}});
    weight = builder.add_value(
        {.kind = Value::Kind::parameter, .name = "weight", .shape = {fixed(6), fixed(6)}});
    builder.graph.input = x;
  }
  ValueId add(Operator operation, std::vector<ValueId> inputs) {
    return builder.add(std::move(operation), std::move(inputs), {.name = "node"});
  }
  ValueId linear(ValueId of) { return add(Linear{}, {of, weight}); }
  ValueId gelu(ValueId of) { return add(Activate{ActivationFunction::gelu}, {of}); }
  ValueId token(ValueId of, std::int64_t count = 1) { return add(Slice{1, 2, count}, {of}); }

  Graph result(ValueId output) const { return with_early_slices(builder.graph, output); }
  std::vector<std::string> operators(ValueId output) const {
    std::vector<std::string> names;
    for (const Node& node : result(output).nodes) names.emplace_back(name_of(node.operation));
    return names;
  }

  GraphBuilder builder;
  ValueId x, weight;
};

TEST_F(EarlySlices, ComeBeforeTheLayersOfEachRow) {
  const ValueId y = add(LayerNorm{.features = 6}, {gelu(linear(x))});
  const ValueId output = token(y);
  EXPECT_THAT(operators(output), ElementsAre("slice", "linear", "gelu", "layer_norm"));
  const Graph graph = result(output);
  for (const Node& node : graph.nodes)
    EXPECT_EQ(to_string(graph.value(node.output).shape), "[batch, 1, 6]");
  EXPECT_EQ(graph.nodes.back().output, output);
}

TEST_F(EarlySlices, AreOneForABranchAndItsResidual) {
  const ValueId middle = gelu(x);
  const ValueId sum = add(Arithmetic{ArithmeticOperation::add}, {middle, linear(middle)});
  EXPECT_THAT(operators(token(sum)), ElementsAre("slice", "gelu", "linear", "add"));
}

TEST_F(EarlySlices, FollowAnAxisThroughReshapesAndPermutations) {
  const ValueId heads = add(Reshape{{{.per_sample = 1}, fixed(8), fixed(2), fixed(3)}}, {gelu(x)});
  const ValueId turned = add(Permute{{0, 2, 1, 3}}, {heads});
  const Graph graph = result(add(Slice{2, 4, 3}, {turned}));
  const auto& slice = std::get<Slice>(graph.nodes[0].operation);
  EXPECT_EQ(slice.axis, 1);
  EXPECT_EQ(slice.start, 4);
  EXPECT_EQ(slice.count, 3);
  EXPECT_EQ(std::get<Reshape>(graph.nodes[2].operation).shape[1], fixed(3));
}

TEST_F(EarlySlices, TakeTheQueriesOfAttentionAlone) {
  const ValueId k = linear(x), v = gelu(k), q = gelu(linear(x));
  const auto attention = [&](bool causal) { return token(add(Attention{causal, 1.0}, {q, k, v})); };
  const Graph graph = result(attention(false));
  for (const Node& node : graph.nodes)
    if (std::holds_alternative<Attention>(node.operation)) {
      EXPECT_EQ(graph.value(node.inputs[0]).shape[1], fixed(1));
      EXPECT_EQ(graph.value(node.inputs[1]).shape[1], fixed(8));
    }
  EXPECT_EQ(operators(attention(true)).back(), "slice");
}

TEST_F(EarlySlices, StayBehindWhatIsReadAsAWholeToo) {
  const ValueId y = linear(x);
  const ValueId sum = add(Arithmetic{ArithmeticOperation::add}, {y, token(y)});
  EXPECT_THAT(operators(sum), ElementsAre("linear", "slice", "add"));
}

TEST_F(EarlySlices, StayBehindOperationsAcrossTheAxis) {
  EXPECT_EQ(operators(add(Slice{2, 0, 1}, {linear(x)})).back(), "slice");
  EXPECT_EQ(operators(add(Slice{2, 0, 1}, {add(LayerNorm{.features = 6}, {x})})).back(), "slice");
  EXPECT_EQ(operators(token(add(Softmax{.axis = -2}, {x}))).back(), "slice");
  EXPECT_EQ(operators(token(add(LayerNorm{.features = 48}, {x}))).back(), "slice");
}

TEST_F(EarlySlices, StayWhereTheyTakeMoreThanHalf) {
  EXPECT_THAT(operators(token(gelu(x), 5)), ElementsAre("gelu", "slice"));
}

TEST_F(EarlySlices, LeaveOutWhatTheOutputDoesNotNeed) {
  const ValueId y = linear(x);
  gelu(y);
  EXPECT_THAT(operators(y), ElementsAre("linear"));
}

}  // namespace
}  // namespace troupe::graph
