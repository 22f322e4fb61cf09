// What the reader of .pt2 makes of PyTorch's operators.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "ops/graph/model_of.h"
#include "ops/graph/read_graph.h"
#include "ops/graph/shapes.h"
#include "pt2_archive.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe::graph {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> operators(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.emplace_back(name_of(node.operation));
  return names;
}

TEST(Pt2, BecomesAGraphOfTheModulesOperators) {
  const Graph graph = read_pt2(testing_ops::graph_file("vgg"));
  EXPECT_THAT(
      operators(graph),
      ElementsAre("convolution", "batch_norm", "relu", "convolution", "batch_norm", "relu",
                  "max_pool", "convolution", "batch_norm", "relu", "convolution", "batch_norm",
                  "relu", "max_pool", "reshape", "linear", "relu", "dropout", "linear"));
  EXPECT_EQ(to_string(graph.value(graph.input).shape), "[batch, 3, 20, 24]");
  EXPECT_EQ(to_string(graph.value(graph.output).shape), "[batch, 10]");
  EXPECT_EQ(graph.nodes[0].module, "features.0");
  EXPECT_EQ(graph.nodes[0].source, "graph_models.py, line 31");
  EXPECT_EQ(std::get<BatchNorm>(graph.nodes[1].operation).counter,
            "features.1.num_batches_tracked");
  EXPECT_TRUE(graph.lacking.empty());
}

TEST(Pt2, KeepsFrozenAndTiedParametersAndConstants) {
  const Graph graph = read_pt2(testing_ops::graph_file("tied"));
  std::map<std::string, bool> trainable;
  for (const Value& value : graph.values)
    if (value.kind == Value::Kind::parameter) trainable[value.name] = value.trainable;
  EXPECT_FALSE(trainable.at("frozen.weight"));
  EXPECT_TRUE(trainable.at("decode.weight"));
  EXPECT_FALSE(trainable.contains("encode.weight"));
  ASSERT_EQ(graph.aliases.size(), 1u);
  EXPECT_EQ(graph.aliases[0].name, "encode.weight");
  EXPECT_EQ(graph.aliases[0].of, "decode.weight");
  ASSERT_EQ(graph.constants.size(), 1u);
  EXPECT_EQ(graph.constants[0].name, "scale");
}

TEST(Pt2, ListsOperatorsThatAreLackingWithModuleAndLine) {
  Archive file("vgg");
  file.change_nodes(
      [](json& nodes) { node(nodes, "relu")["target"] = "torch.ops.aten.elu.default"; });
  const Graph graph = file.read();
  ASSERT_EQ(graph.lacking.size(), 1u);
  EXPECT_EQ(graph.lacking[0].operation, "elu.default");
  EXPECT_EQ(graph.lacking[0].module, "classifier.1");
  try {
    (void)model_of(std::make_shared<Graph>(graph), {});
    FAIL() << "the model was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("elu.default"), HasSubstr("classifier.1"),
                                    HasSubstr("graph_models.py, line 32")));
  }
}

// Scores would depend on the size of micro-batches.
TEST(Pt2, LacksASoftmaxOverTheSamplesOfABatch) {
  Archive file("dense");
  file.change_nodes([](json& nodes) {
    argument(node(nodes, "log_softmax"), "dim") = {{"as_int", 0}};
  });
  const Graph graph = file.read();
  ASSERT_EQ(graph.lacking.size(), 1u);
  EXPECT_EQ(graph.lacking[0].reason, combines_samples);
}

TEST(Pt2, SaysThatNoGradStopsTheGradient) {
  Archive file("vgg");
  file.change_nodes([](json& nodes) {
    node(nodes, "relu")["target"] = "torch.ops.higher_order.wrap_with_set_grad_enabled";
  });
  const Graph graph = file.read();
  ASSERT_EQ(graph.lacking.size(), 1u);
  EXPECT_EQ(graph.lacking[0].reason, "torch.no_grad() stops the gradient");
  EXPECT_THAT(remedy_for(graph.lacking[0]), HasSubstr("requires_grad_(False)"));
}

TEST(Pt2, ListsTheParametersOfOperatorsThatAreLacking) {
  Archive file("tokens");
  file.change_nodes([](json& nodes) {
    argument(node(nodes, "embedding_1"), "scale_grad_by_freq") = {{"as_bool", true}};
  });
  const Graph graph = file.read();
  ASSERT_EQ(graph.lacking.size(), 1u);
  EXPECT_EQ(graph.lacking[0].reason, "scale_grad_by_freq=True");
  const auto parameters = [](const Graph& of) {
    std::set<std::string> names;
    for (const Value& value : of.values)
      if (value.kind == Value::Kind::parameter) names.insert(value.name);
    return names;
  };
  EXPECT_EQ(parameters(graph), parameters(Archive("tokens").read()));
}

TEST(Pt2, ReadsTheRowOfPaddingOfAnEmbedding) {
  const auto with_padding = [](int row) {
    Archive file("tokens");
    file.change_nodes([row](json& nodes) {
      argument(node(nodes, "embedding"), "padding_idx") = {{"as_int", row}};
    });
    return file;
  };
  const auto row_of = [](const Graph& graph) {
    for (const Node& node : graph.nodes)
      if (const auto* embedding = std::get_if<Embedding>(&node.operation))
        return embedding->padding_row;
    return std::int64_t{-2};
  };
  EXPECT_EQ(row_of(with_padding(3).read()), 3);
  EXPECT_EQ(row_of(with_padding(-1).read()), -1);
  EXPECT_NE(digest(with_padding(3).read()), digest(with_padding(-1).read()));
  for (const int row : {10, -2})
    EXPECT_THAT(with_padding(row).error(), HasSubstr("padding_idx is " + std::to_string(row)));
}

TEST(Pt2, NamesAnOperatorWithSeveralResultsByItself) {
  Archive file("vit");
  file.change_nodes(
      [](json& nodes) { node(nodes, "chunk")["target"] = "torch.ops.aten.topk.default"; });
  const Graph graph = file.read();
  ASSERT_EQ(graph.lacking.size(), 1u);
  EXPECT_EQ(graph.lacking[0].name, "chunk");
}

TEST(Pt2, ExpandsOneNumberToConstantsOfTheBatch) {
  const auto zeros = [](std::int64_t size) {
    Archive file("vgg");
    file.change_nodes([size](json& nodes) {
      json& relu = node(nodes, "relu");
      relu["target"] = "torch.ops.aten.zeros.default";
      relu["inputs"] = json::array();
      argument(relu,
               "size") = {{"as_sym_ints", {{{"as_name", "sym_size_int_1"}}, {{"as_int", size}}}}};
    });
    return file;
  };
  const Graph graph = zeros(24).read();
  EXPECT_TRUE(graph.lacking.empty());
  const auto made = std::ranges::find_if(
      graph.nodes, [](const Node& node) { return std::holds_alternative<Expand>(node.operation); });
  ASSERT_NE(made, graph.nodes.end());
  EXPECT_EQ(to_string(graph.value(made->output).shape), "[batch, 24]");
  EXPECT_EQ(graph.value(made->inputs[0]).constant.element_count(), 1);
  EXPECT_THAT(zeros(std::int64_t{1} << 40).read().lacking.at(0).reason, HasSubstr("constant"));
}

TEST(Pt2, ComputesWhatDependsOnConstantsAloneWhenItIsRead) {
  const Graph graph = read_pt2(testing_ops::graph_file("masked"));
  EXPECT_TRUE(graph.lacking.empty());
  for (const Node& node : graph.nodes)
    EXPECT_FALSE(is_fixed(product(graph.value(node.output).shape)) &&
                 std::ranges::all_of(node.inputs,
                                     [&](ValueId id) {
                                       return id.index >= 0 &&
                                              graph.value(id).kind == Value::Kind::constant;
                                     }))
        << node.name;
}

/// The model with other arguments of a node.
Graph masked_with(const char* changed, const std::function<void(json&)>& change) {
  Archive file("masked");
  file.change_nodes([&](json& nodes) { change(node(nodes, changed)); });
  return file.read();
}

TEST(Pt2, LacksMasksAndIndicesThatAreNoConstants) {
  const auto reason = [](const char* changed, const char* name, json value) {
    return masked_with(changed, [&](json& node) { argument(node, name) = value; })
        .lacking.at(0)
        .reason;
  };
  const json computed = {{"as_tensor", {{"name", "einsum"}}}};
  const json numbers = {{"as_tensor", {{"name", "arange"}}}};
  EXPECT_EQ(reason("masked_fill", "mask", computed), "its argument mask is not a constant");
  EXPECT_EQ(reason("masked_fill", "mask", numbers), "its mask does not consist of truth values");
  EXPECT_EQ(reason("where", "condition", computed), "its argument condition is not a constant");
  EXPECT_EQ(reason("lt", "self", computed), "its argument self is not a constant");
  EXPECT_EQ(reason("and_1", "self", numbers), "it does not read truth values");
  EXPECT_EQ(reason("index", "indices", {{"as_tensors", {{{"name", "linear"}}}}}),
            "its indices are not constant");
}

TEST(Pt2, LacksMovesOfTheSamplesOfABatch) {
  EXPECT_EQ(masked_with("roll",
                        [](json& node) {
                          argument(node, "dims") = {{"as_ints", {0, 1}}};
                        })
                .lacking.at(0)
                .reason,
            combines_samples);
  EXPECT_EQ(masked_with("flip",
                        [](json& node) {
                          argument(node, "dims") = {{"as_ints", {0}}};
                        })
                .lacking.at(0)
                .reason,
            combines_samples);
  EXPECT_EQ(masked_with("pad",
                        [](json& node) {
                          argument(node, "pad") = {{"as_ints", {0, 0, 0, 0, 1, 0}}};
                        })
                .lacking.at(0)
                .reason,
            "it pads the batch");
}

TEST(Pt2, NeedsNoOperatorsThatTheResultDoesNotDependOn) {
  Archive file("vgg");
  file.change_nodes([](json& nodes) {
    json unread = node(nodes, "relu");
    unread["target"] = "torch.ops.aten.elu.default";
    nodes.insert(nodes.begin() + 4, unread);  // before the node of the same name
  });
  EXPECT_TRUE(file.read().lacking.empty());
}

TEST(Pt2, NeedsOperatorsThatWriteTheMemoryOfOthers) {
  Archive file("vgg");
  file.change_nodes([](json& nodes) {
    json unread = node(nodes, "relu");
    unread["target"] = "torch.ops.aten.elu_.default";
    nodes.insert(nodes.begin() + 4, unread);
  });
  EXPECT_EQ(file.read().lacking.size(), 1u);
}

TEST(Pt2, RefusesIndicesOutsideOfTheTable) {
  Archive file("masked");
  file.change_nodes([](json& nodes) {
    argument(node(nodes, "index"), "self") = {{"as_tensor", {{"name", "p_first"}}}};
  });
  EXPECT_THAT(file.error(), HasSubstr("an index lies outside of 1 rows"));
}

TEST(Pt2, RefusesModelsInEvaluationMode) {
  Archive file("vgg");
  file.change_nodes([](json& nodes) {
    argument(node(nodes, "batch_norm"), "training") = {{"as_bool", false}};
  });
  const Graph graph = file.read();
  ASSERT_EQ(graph.lacking.size(), 1u);
  EXPECT_THAT(graph.lacking[0].reason, HasSubstr("evaluation mode"));
  EXPECT_THAT(graph.lacking[0].remedy, HasSubstr("torch.export.save("));
}

TEST(Pt2, ReadsMasksThatAModelDrawsAsDropout) {
  const Graph graph = Archive("draws").read();
  ASSERT_TRUE(graph.lacking.empty());
  std::vector<std::pair<double, int>> drawn;
  double of_attention = 0;
  for (const Node& node : graph.nodes) {
    if (const auto* dropout = std::get_if<Dropout>(&node.operation))
      drawn.emplace_back(dropout->probability, dropout->drawn_axes);
    if (const auto* attention = std::get_if<Attention>(&node.operation))
      of_attention = attention->dropout;
  }
  EXPECT_THAT(drawn, ElementsAre(std::pair(0.3, 2), std::pair(0.2, 1)));
  EXPECT_EQ(of_attention, 0.1);
}

TEST(Pt2, ListsRandomNumbersThatAreNoDropout) {
  Archive file("draws");
  file.change_nodes([](json& nodes) {
    for (json& one : nodes)
      if (one["target"] == "torch.ops.aten.div_.Tensor")
        argument(one, "other") = {{"as_float", 0.7}};
  });
  const Graph graph = file.read();
  ASSERT_FALSE(graph.lacking.empty());
  EXPECT_THAT(graph.lacking[0].reason, HasSubstr("random numbers"));
}

template <class O>
const Node& only_node(const Graph& graph) {
  const auto is_one = [](const Node& node) { return std::holds_alternative<O>(node.operation); };
  const auto found = std::ranges::find_if(graph.nodes, is_one);
  if (found == graph.nodes.end()) throw std::runtime_error("no such operator");
  return *found;
}
template <class O>
const O& only(const Graph& graph) {
  return std::get<O>(only_node<O>(graph).operation);
}

TEST(Pt2, ComparesTheWindowsOfCeilModeWithTheStrideOfEachAxis) {
  for (const int kernel : {2, 3}) {  // (24 - 3) / 3 windows fit exactly, (24 - 2) / 3 do not
    Archive file("dense");
    file.change_nodes([kernel](json& nodes) {
      json& pool = node(nodes, "avg_pool2d");
      argument(pool, "kernel_size") = {{"as_ints", {2, kernel}}};
      argument(pool, "stride") = {{"as_ints", {2, 3}}};
      argument(pool, "ceil_mode") = {{"as_bool", true}};
    });
    EXPECT_EQ(file.read().lacking.size(), kernel == 2 ? 1u : 0u);
  }
}

TEST(Pt2, StridesByTheWindowWhereNoStrideIsGiven) {
  Archive file("draws");
  file.change_nodes([](json& nodes) {
    json& pool = node(nodes, "max_pool2d");
    argument(pool, "kernel_size") = {{"as_ints", {2, 3}}};
    argument(pool, "stride") = {{"as_ints", json::array()}};
    argument(pool, "ceil_mode") = {{"as_bool", false}};
  });
  const PoolOptions pool = only<MaxPool>(file.read()).options;
  EXPECT_EQ(pool.stride_h, 2);
  EXPECT_EQ(pool.stride_w, 3);
}

TEST(Pt2, KeepsTheFactorOfRandomNumbersThatAreNotDivided) {
  Archive file("draws");
  file.change_nodes([](json& nodes) {
    argument(node(nodes, "mul_5"), "other") = {{"as_tensor", {{"name", "bernoulli_"}}}};
    for (auto at = nodes.begin(); at != nodes.end(); ++at)
      if ((*at)["name"] == "div_") {
        nodes.erase(at);
        break;
      }
  });
  const Graph graph = file.read();
  ASSERT_TRUE(graph.lacking.empty());
  const auto drawn = std::ranges::find_if(graph.nodes, [](const Node& node) {
    const auto* dropout = std::get_if<Dropout>(&node.operation);
    return dropout && dropout->drawn_axes == 1;
  });
  ASSERT_LT(drawn + 1, graph.nodes.end());
  const auto* factor = std::get_if<Affine>(&(drawn + 1)->operation);
  ASSERT_TRUE(factor && (drawn + 1)->inputs[0] == drawn->output);
  EXPECT_EQ(factor->factor, 0.8);
  EXPECT_EQ(factor->offset, 0.0);
}

TEST(Pt2, MultipliesWhatRsubSubtractsByItsAlpha) {
  Archive file("tied");
  file.change_nodes([](json& nodes) {
    node(nodes, "mul")["target"] = "torch.ops.aten.rsub.Tensor";
    argument(node(nodes, "mul"), "alpha") = {{"as_float", 3.0}};
  });
  const Graph graph = file.read();
  EXPECT_EQ(only<Affine>(graph).factor, 3.0);
  EXPECT_EQ(only<Arithmetic>(graph).operation, ArithmeticOperation::subtract);
  EXPECT_EQ(graph.value(only_node<Arithmetic>(graph).inputs[0]).name, "scale");  // scale - 3 * relu
}

TEST(Pt2, ReadsANumberInPlaceOfTheFirstTensor) {
  Archive file("tied");
  file.change_nodes([](json& nodes) {
    json& division = node(nodes, "mul");
    division["target"] = "torch.ops.aten.div.Tensor";
    argument(division, "self") = {{"as_float", 1.5}};
    argument(division, "other") = {{"as_tensor", {{"name", "relu"}}}};
  });
  const Graph graph = file.read();
  ASSERT_TRUE(graph.lacking.empty());
  EXPECT_EQ(only<Arithmetic>(graph).operation, ArithmeticOperation::divide);
  const Value& number = graph.value(only_node<Arithmetic>(graph).inputs[0]);
  EXPECT_EQ(number.constant.elements<double>()[0], 1.5);
}

// PyTorch exports 2.0 / x as x.reciprocal() * 2.0.
TEST(Pt2, ReadsAReciprocalAsAQuotient) {
  Archive file("tied");
  file.change_nodes([](json& nodes) {
    json& reciprocal = node(nodes, "mul");
    reciprocal["target"] = "torch.ops.aten.reciprocal.default";
    argument(reciprocal, "self") = {{"as_tensor", {{"name", "relu"}}}};
  });
  const Graph graph = file.read();
  ASSERT_TRUE(graph.lacking.empty());
  EXPECT_EQ(only<Arithmetic>(graph).operation, ArithmeticOperation::divide);
  const Value& number = graph.value(only_node<Arithmetic>(graph).inputs[0]);
  EXPECT_EQ(number.constant.elements<double>()[0], 1.0);
}

TEST(Pt2, ListsArgumentsOfAnotherKind) {
  Archive file("vgg");
  file.change_nodes([](json& nodes) {
    argument(node(nodes, "conv2d"), "stride") = {{"as_string", "x"}};
    argument(node(nodes, "conv2d_1"), "weight") = {{"as_none", true}};
  });
  const Graph graph = file.read();
  ASSERT_EQ(graph.lacking.size(), 2u);
  EXPECT_EQ(graph.lacking[0].reason, "its argument stride is of the kind string, not ints");
  EXPECT_EQ(graph.lacking[1].reason, "its argument weight is None");
}

TEST(Pt2, ReadsTheCounterOfABatchNormThatIsCalledTwice) {
  Archive file("vgg");
  const auto reads = [](json& nodes, const char* name, const char* input, const char* value) {
    argument(node(nodes, name), input) = {{"as_tensor", {{"name", value}}}};
  };
  file.change_nodes([&](json& nodes) {
    reads(nodes, "add__1", "self", "add_");
    reads(nodes, "batch_norm_1", "weight", "p_features_1_weight");
    reads(nodes, "batch_norm_1", "bias", "p_features_1_bias");
    reads(nodes, "batch_norm_1", "running_mean", "b_features_1_running_mean");
    reads(nodes, "batch_norm_1", "running_var", "b_features_1_running_var");
  });
  const Graph graph = file.read();
  EXPECT_TRUE(graph.lacking.empty());
  test::expect_error(ErrorCode::unsupported, {"shares features.1.weight", "called twice"},
                     [&] { (void)model_of(std::make_shared<Graph>(graph), {}); });
}

TEST(Pt2, ListsReadersOfACounterThatTheModelCountsUp) {
  for (const char* name : {"b_features_1_num_batches_tracked", "add_"}) {
    Archive file("vgg");
    file.change_nodes([name](json& nodes) {
      json& relu = node(nodes, "relu");
      relu["target"] = "torch.ops.aten.mul.Tensor";
      argument(relu, "other") = {{"as_tensor", {{"name", name}}}};
    });
    const Graph graph = file.read();
    ASSERT_EQ(graph.lacking.size(), 1u) << name;
    EXPECT_THAT(graph.lacking[0].reason, HasSubstr("which the model counts up"));
  }
}

TEST(Pt2, ReadsMasksOfAttentionThatAreComputedAndReadsEachConstantOnce) {
  Archive file("tokens");
  file.change_nodes([](json& nodes) {
    json& last = node(nodes, "matmul_1");
    json attention = node(nodes, "scaled_dot_product_attention_1");
    attention["name"] = "matmul_1";
    attention["outputs"] = last["outputs"];
    argument(attention, "attn_mask") = {{"as_tensor", {{"name", "mul"}}}};
    last = attention;
    json& first = node(nodes, "scaled_dot_product_attention");
    argument(first, "attn_mask") = {{"as_tensor", {{"name", "b_mask"}}}};
    argument(first, "is_causal") = {{"as_bool", false}};
  });
  const Graph graph = file.read();
  ASSERT_TRUE(graph.lacking.empty());
  std::vector<const Value*> masks;
  std::set<int> ids;
  for (const Node& node : graph.nodes)
    if (std::holds_alternative<Attention>(node.operation)) {
      masks.push_back(&graph.value(node.inputs.at(3)));
      ids.insert(node.inputs[3].index);
    }
  ASSERT_EQ(masks.size(), 3u);
  EXPECT_EQ(masks[0]->kind, Value::Kind::constant);
  EXPECT_EQ(masks[2]->kind, Value::Kind::computed);
  EXPECT_EQ(ids.size(), 2u);
}

TEST(Pt2, ListsAttentionWhoseMaskConsistsOfIntegers) {
  Archive file("tokens");
  file.change("data/constants/model_constants_config.json", [](json& config) {
    config["config"]["mask"]["tensor_meta"]["dtype"] = 1;  // bytes in place of truth values
  });
  const Graph graph = file.read();
  ASSERT_FALSE(graph.lacking.empty());
  EXPECT_EQ(graph.lacking[0].operation, "scaled_dot_product_attention.default");
  EXPECT_EQ(graph.lacking[0].reason, "its mask consists of integers");
}

/// mask.float() of truth values or bytes adds 0 and 1.
TEST(Pt2, AddsTheMaskOfAttentionThatTheModelConvertsToFloatingPoint) {
  for (const bool of_bytes : {false, true}) {
    Archive file("tokens");
    if (of_bytes)
      file.change("data/constants/model_constants_config.json",
                  [](json& config) { config["config"]["mask"]["tensor_meta"]["dtype"] = 1; });
    file.change_model([](json& model) {
      json& stated = model["graph_module"]["graph"]["tensor_values"];
      stated["to"] = stated["b_mask"];
      stated["to"]["dtype"] = 7;
      json& nodes = model["graph_module"]["graph"]["nodes"];
      json convert = node(nodes, "transpose");
      convert["target"] = "torch.ops.aten.to.dtype";
      convert["name"] = "to";
      convert["outputs"][0]["as_tensor"]["name"] = "to";
      argument(convert, "self") = {{"as_tensor", {{"name", "b_mask"}}}};
      argument(node(nodes, "scaled_dot_product_attention_1"),
               "attn_mask") = {{"as_tensor", {{"name", "to"}}}};
      nodes.insert(nodes.begin(), convert);
    });
    const Graph graph = file.read();
    ASSERT_TRUE(graph.lacking.empty()) << graph.lacking[0].reason;
    for (const Node& node : graph.nodes)
      if (std::holds_alternative<Attention>(node.operation) && node.inputs.size() > 3) {
        const Tensor mask = graph.value(node.inputs[3]).constant;
        EXPECT_THAT(mask.elements<double>(), testing::Contains(1.0));
        EXPECT_THAT(mask.elements<double>(), testing::Each(testing::AnyOf(0.0, 1.0)));
      }
  }
}

TEST(Pt2, ReadsOperatorsThatOverwriteTheirInput) {
  Archive file("vgg");
  file.change_nodes([](json& nodes) {
    json& dropout = node(nodes, "dropout");
    dropout["target"] = "torch.ops.aten.dropout_.default";
    for (json& input : dropout["inputs"])
      if (input["name"] == "input") input["name"] = "self";
    argument(node(nodes, "linear_1"), "input") = {{"as_tensor", {{"name", "relu"}}}};
  });
  const Graph graph = file.read();
  EXPECT_TRUE(graph.lacking.empty());
  EXPECT_EQ(graph.nodes.back().inputs[0], graph.nodes[graph.nodes.size() - 2].output);
  EXPECT_EQ(name_of(graph.nodes[graph.nodes.size() - 2].operation), "dropout");
}

TEST(Pt2, SaysWhenAnOverwrittenViewIsReadAgain) {
  Archive file("vgg");
  // classifier.1's ReLU overwrites `view`, whose memory is that of max_pool2d_1; `linear` then
  // reads both.
  file.change_nodes([](json& nodes) {
    json& linear = node(nodes, "linear");
    json relu = node(nodes, "relu");
    relu["target"] = "torch.ops.aten.relu_.default";
    relu["name"] = "early";
    relu["outputs"] = {{{"as_tensor", {{"name", "early"}}}}};
    argument(relu, "self") = {{"as_tensor", {{"name", "view"}}}};
    argument(linear, "input") = {{"as_tensor", {{"name", "max_pool2d_1"}}}};
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i]["name"] == "linear") {
        nodes.insert(nodes.begin() + static_cast<std::ptrdiff_t>(i), relu);
        break;
      }
  });
  const Graph graph = file.read();
  ASSERT_FALSE(graph.lacking.empty());
  EXPECT_THAT(graph.lacking[0].reason, HasSubstr("overwritten through a view"));
}

}  // namespace
}  // namespace troupe::graph
