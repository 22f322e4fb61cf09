// What the reader of .pt2 makes of PyTorch's operators, and of files that are damaged or hostile.
#include "ops/graph/pt2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "graph_files.h"
#include "ops/graph/model_of.h"
#include "ops/graph/partition.h"
#include "ops/graph/read_graph.h"
#include "ops/graph/shapes.h"
#include "runtime/error.h"
#include "runtime/file/zip.h"
#include "tests/unit/runtime/file/support.h"
#include "tests/unit/runtime/file/zip_text.h"

namespace troupe::graph {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// A golden .pt2 that a test changes and reads again.
class Archive {
 public:
  explicit Archive(const std::string& model) {
    const ZipArchive zip = ZipArchive::open(testing_ops::graph_file(model));
    for (const ZipMember& member : zip.members())
      members_[member.name] = zip.content(member, UINT64_MAX).text();
    stem_ = model + "/";
  }
  std::string& member(const std::string& name) { return members_[stem_ + name]; }
  void remove(const std::string& name) { members_.erase(stem_ + name); }
  void pack(const std::string& name) { packed_.insert(stem_ + name); }
  void change(const std::string& name, const std::function<void(json&)>& change) {
    json document = json::parse(member(name));
    change(document);
    member(name) = document.dump();
  }
  void change_model(const std::function<void(json&)>& edit) { change("models/model.json", edit); }
  void change_nodes(const std::function<void(json&)>& edit) {
    change_model([&](json& model) { edit(model["graph_module"]["graph"]["nodes"]); });
  }
  Graph read() const {
    std::vector<test::MadeMember> entries;
    for (const auto& [name, content] : members_)
      entries.push_back({.name = name, .content = content, .deflated = packed_.contains(name)});
    const std::string bytes = test::zip_of(entries);
    return parse_pt2(std::as_bytes(std::span(bytes)), "'net.pt2'");
  }
  std::string error() const {
    try {
      (void)read();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file) << error.what();
      EXPECT_FALSE(error.remedy().empty()) << error.what();
      return error.what();
    }
    return "no error";
  }

 private:
  std::map<std::string, std::string> members_;
  std::set<std::string> packed_;
  std::string stem_;
};

json& node(json& nodes, const std::string& name) {
  for (json& one : nodes)
    if (one["name"] == name) return one;
  throw std::runtime_error("no node " + name);
}

json& argument(json& node, const std::string& name) {
  for (json& input : node["inputs"])
    if (input["name"] == name) return input["arg"];
  node["inputs"].push_back({{"name", name}, {"arg", json::object()}, {"kind", 1}});
  return node["inputs"].back()["arg"];
}

std::vector<std::string> operators(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.emplace_back(name_of(node.operation));
  return names;
}

std::vector<std::string> block_paths(const Graph& graph) {
  std::vector<std::string> paths;
  for (const GraphBlock& block : partition(graph, graph.output).blocks) paths.push_back(block.path);
  return paths;
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
      [](json& nodes) { node(nodes, "chunk")["target"] = "torch.ops.aten.lstm.input"; });
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

TEST(Pt2, SuggestsTheOtherFormatForCells) {
  Archive file("vgg");
  file.change_nodes(
      [](json& nodes) { node(nodes, "relu")["target"] = "torch.ops.aten.gru_cell.default"; });
  EXPECT_THAT(file.read().lacking.at(0).remedy, HasSubstr("torch.onnx.export("));
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

TEST(Pt2, RefusesWindowsThatReachFarBeyondTheImage) {
  Archive file("draws");
  file.change_nodes([](json& nodes) {
    argument(node(nodes, "max_pool2d"), "kernel_size") = {{"as_ints", {1 << 19, 1 << 19}}};
  });
  EXPECT_THAT(file.error(), HasSubstr("max_pool"));
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

TEST(Pt2, IgnoresUnknownKeysAndRefusesOtherSchemas) {
  Archive file("tied");
  file.change_model([](json& model) {
    model["novelty"] = {1, 2};
    model["schema_version"]["minor"] = 99;
  });
  EXPECT_EQ(file.error(), "no error");
  file.change_model([](json& model) { model["schema_version"]["major"] = 9; });
  EXPECT_THAT(file.error(), HasSubstr("schema 9.99"));
}

TEST(Pt2, RefusesAFixedBatch) {
  Archive file("tied");
  file.change_model([](json& model) {
    model["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0] = {{"as_int", 2}};
  });
  EXPECT_THAT(file.error(), AllOf(HasSubstr("fixed"), HasSubstr("dynamic_shapes")));
}

TEST(Pt2, AnswersFilesOfOtherKindsWithTheLineThatExports) {
  Archive script("tied"), weights("tied");
  script.remove("models/model.json");
  script.member("constants.pkl") = "x";
  EXPECT_THAT(script.error(), AllOf(HasSubstr("TorchScript"), HasSubstr("torch.export.save(")));
  weights.remove("models/model.json");
  weights.member("data.pkl") = "\x80\x02}.";
  EXPECT_THAT(weights.error(), AllOf(HasSubstr("weights alone"), HasSubstr("torch.export.save(")));
  test::expect_error(
      ErrorCode::bad_file, {"from PyTorch before 1.6: a pickle of weights", "set `Model::weights`"},
      [] { read_graph(std::string(TROUPE_SOURCE_DIR) + "/tests/golden/torch/legacy.pt"); });
  weights.member("data.pkl") =
      "\x80\x02"
      "cnet\nNet\n)R.";
  EXPECT_THAT(weights.error(), AllOf(HasSubstr("pickled module"), HasSubstr("torch.export.save(")));
}

/// A change of a file's weights configuration and what the error says of it.
struct WrongTensor {
  const char* name;
  std::function<void(json&)> change;
  const char* says;
};

TEST(Pt2, RefusesTensorsThatExceedTheirBytes) {
  const std::int64_t huge = std::int64_t{1} << 62;
  const std::vector<WrongTensor> cases{
      {"sizes", [](json& t) { t["tensor_meta"]["sizes"][0]["as_int"] = 1000; }, "exceed its"},
      {"strides", [](json& t) { t["tensor_meta"]["strides"][0]["as_int"] = 1000; }, "exceed its"},
      {"huge stride", [=](json& t) { t["tensor_meta"]["strides"][0]["as_int"] = huge; },
       "exceed its"},
      {"negative stride", [](json& t) { t["tensor_meta"]["strides"][0]["as_int"] = -1; },
       "exceed its"},
      {"repeated elements",
       [](json& t) {
         t["tensor_meta"]["sizes"][0]["as_int"] = std::int64_t{1} << 40;
         t["tensor_meta"]["strides"] = {{{"as_int", 0}}, {{"as_int", 0}}};
       },
       "exceed its"},
      {"offset", [](json& t) { t["tensor_meta"]["storage_offset"]["as_int"] = 9; }, "exceed its"},
      {"missing stride", [](json& t) { t["tensor_meta"]["strides"].erase(0); }, "strides for"},
      {"type", [](json& t) { t["tensor_meta"]["dtype"] = 9; }, "element type"},
      {"pickle", [](json& t) { t["use_pickle"] = true; }, "pickle"},
      {"payload", [](json& t) { t["path_name"] = "../../weight"; }, "weight"},
      {"axes",
       [](json& t) {
         t["tensor_meta"]["sizes"] = json(1000, {{"as_int", 1}});
         t["tensor_meta"]["strides"] = json(1000, {{"as_int", 1}});
       },
       "its tensor has 1000 axes; at most 6"},
      {"no name", [](json& t) { t.erase("path_name"); }, "'path_name' is missing"},
      {"no number", [](json& t) { t["tensor_meta"]["sizes"][0]["as_int"] = "x"; }, "whole number"},
  };
  for (const WrongTensor& wrong : cases) {
    Archive file("tied");
    file.change("data/weights/model_weights_config.json",
                [&](json& config) { wrong.change(config["config"]["frozen.weight"]); });
    EXPECT_THAT(file.error(), HasSubstr(wrong.says)) << wrong.name;
  }
}

TEST(Pt2, RefusesOverflowingShapes) {
  Archive file("tied");
  file.change("data/weights/model_weights_config.json", [](json& config) {
    json& sizes = config["config"]["frozen.weight"]["tensor_meta"]["sizes"];
    sizes[0]["as_int"] = std::int64_t{1} << 40;
    sizes[1]["as_int"] = std::int64_t{1} << 40;
  });
  EXPECT_THROW((void)file.read(), Error);
}

/// A size of a golden file's input, and of a node that is lacking, in sympy's notation.
std::string error_of_size(const std::string& expression) {
  Archive file("tied");
  file.change_model([&](json& model) {
    json& sizes = model["graph_module"]["graph"]["tensor_values"]["x"]["sizes"];
    const std::string batch = sizes[0]["as_expr"]["expr_str"];
    const std::string symbol = batch.substr(0, batch.find(')') + 1);
    std::string text = expression;
    if (const auto at = text.find("batch"); at != text.npos) text.replace(at, 5, symbol);
    sizes[1] = {{"as_expr", {{"expr_str", text}}}};
  });
  return file.error();
}

TEST(Pt2, RefusesSizesBeyondTheLargestNumber) {
  const std::string largest = "Integer(9223372036854775807)";
  for (const std::string& text :
       {"Add(Integer(1), " + largest + ")",
        std::string("Add(Integer(-2), Integer(-9223372036854775808))"),
        "Mul(Integer(3), " + largest + ")", "Mul(batch, " + largest + ", Integer(2))",
        "Add(Mul(batch, " + largest + "), Mul(Integer(1), " + largest + "), " + largest + ")"})
    EXPECT_THAT(error_of_size(text), AllOf(HasSubstr("too large"), HasSubstr(text.substr(0, 4))))
        << text;
  for (const std::string& text : {largest, std::string("Integer(-1)")})
    EXPECT_THAT(error_of_size(text), HasSubstr("no tensor is [batch, ")) << text;
}

TEST(Pt2, RefusesEmptyTensorsWithAHugeAxis) {
  Archive file("tied");
  file.change("data/weights/model_weights_config.json", [](json& config) {
    json& sizes = config["config"]["frozen.weight"]["tensor_meta"]["sizes"];
    sizes[0]["as_int"] = 0;
    sizes[1]["as_int"] = std::int64_t{1} << 62;
  });
  EXPECT_THROW((void)file.read(), Error);
}

struct WrongNode {
  const char* name;
  std::function<void(json& nodes)> change;
  const char* says;
};

TEST(Pt2, RefusesNodesThatDoNotFit) {
  const auto reads = [](const char* what) { return json{{"as_tensor", {{"name", what}}}}; };
  const std::vector<WrongNode> cases{
      {"cycle", [&](json& n) { argument(node(n, "conv2d"), "input") = reads("linear_1"); },
       "no node before"},
      {"unknown value", [&](json& n) { argument(node(n, "conv2d"), "input") = reads("ghost"); },
       "ghost"},
      {"weight of another shape",
       [&](json& n) { argument(node(n, "conv2d"), "weight") = reads("p_classifier_0_weight"); },
       "4 axes"},
      {"wrong channels",
       [&](json& n) { argument(node(n, "conv2d_1"), "weight") = reads("p_features_0_weight"); },
       "channels"},
      {"stride of zero",
       [](json& n) {
         argument(node(n, "conv2d"), "stride") = {{"as_ints", {0, 0}}};
       },
       "stride 0"},
      {"huge padding",
       [](json& n) {
         argument(node(n, "conv2d"), "padding") = {{"as_ints", {std::int64_t{1} << 62, 1}}};
       },
       "padding"},
      {"huge padding of a pool",
       [](json& n) {
         argument(node(n, "max_pool2d"), "padding") = {{"as_ints", {std::int64_t{1} << 62, 1}}};
       },
       "'padding' is 4611686018427387904"},
      {"huge dilation of padding that keeps the size",
       [](json& n) {
         json& convolution = node(n, "conv2d");
         convolution["target"] = "torch.ops.aten.conv2d.padding";
         argument(convolution, "padding") = {{"as_string", "same"}};
         argument(convolution, "dilation") = {{"as_ints", {1, INT64_MAX}}};
       },
       "'dilation' is 9223372036854775807"},
      {"negative kernel",
       [](json& n) {
         argument(node(n, "max_pool2d"), "kernel_size") = {{"as_ints", {INT64_MIN, 2}}};
       },
       "'kernel_size' is -9223372036854775808"},
      {"huge parts",
       [](json& n) {
         json& relu = node(n, "relu");
         relu["target"] = "torch.ops.aten.split.Tensor";
         argument(relu, "split_size") = {{"as_int", INT64_MAX}};
         argument(relu, "dim") = {{"as_int", 1}};
         relu["outputs"].push_back(relu["outputs"][0]);
       },
       "it has 2 outputs"},
      {"a huge axis of an empty tensor",
       [](json& n) {
         json& view = node(n, "view");
         view["target"] = "torch.ops.aten.expand.default";
         argument(view, "self") = {{"as_tensor", {{"name", "p_classifier_0_bias"}}}};
         argument(view, "size") = {{"as_ints", {std::int64_t{1} << 62, 0, -1}}};
       },
       "no tensor is [4611686018427387904, 0, "},
      {"groups",
       [](json& n) {
         argument(node(n, "conv2d"), "groups") = {{"as_int", -3}};
       },
       "groups"},
      {"wrong type",
       [](json& n) {
         argument(node(n, "conv2d"), "stride") = {{"as_ints", {"x", 1}}};
       },
       "whole number"},
      {"size that does not fit",
       [](json& n) {
         argument(node(n, "view"), "size") = {{"as_ints", {7, -1}}};
       },
       "reshaped"},
      {"no target", [](json& n) { n[0].erase("target"); }, "'target' is missing"},
      {"no object", [](json& n) { n[0] = 3; }, "object"},
      {"no list", [](json& n) { n = json::object(); }, "list"},
  };
  for (const WrongNode& wrong : cases) {
    Archive file("vgg");
    file.change_nodes(wrong.change);
    EXPECT_THAT(file.error(), HasSubstr(wrong.says)) << wrong.name;
  }
}

TEST(Pt2, RefusesLayersOfSequencesWithArgumentsForImages) {
  const auto error_with = [](const std::string& name, const std::string& argument_name,
                             json value) {
    Archive file("series");
    file.change_nodes([&](json& nodes) { argument(node(nodes, name), argument_name) = value; });
    return file.error();
  };
  const json three{{"as_ints", {1, 1, 1}}}, head{{"as_tensor", {{"name", "p_head_weight"}}}};
  EXPECT_THAT(error_with("conv1d", "stride", three), HasSubstr("'stride' has 3 numbers"));
  EXPECT_THAT(error_with("max_pool1d", "kernel_size", three), HasSubstr("'kernel_size' has 3"));
  EXPECT_THAT(error_with("conv1d", "weight", head), HasSubstr("[10, 12], not of 3 axes"));
  Archive file("series");
  file.change_nodes([](json& nodes) {
    argument(node(nodes, "conv1d"), "input") = {{"as_tensor", {{"name", "linear"}}}};
  });
  EXPECT_THAT(file.error(), HasSubstr("no node before"));
}

TEST(Pt2, RefusesDeepNesting) {
  Archive file("tied");
  file.member("models/model.json") = std::string(100'000, '[');
  EXPECT_THAT(file.error(), HasSubstr("nested deeper"));
}

TEST(Pt2, RefusesConstantsThatWouldNotFitIntoMemory) {
  Archive file("tied");
  file.change_nodes([](json& nodes) {
    json& relu = node(nodes, "relu");
    relu["target"] = "torch.ops.aten.zeros.default";
    argument(relu, "size") = {{"as_ints", {1 << 20, 1 << 20}}};
  });
  const Graph graph = file.read();
  ASSERT_FALSE(graph.lacking.empty());
  EXPECT_THAT(graph.lacking[0].reason, HasSubstr("constant of the shape"));
}

TEST(Pt2, LimitsTheConstantsOfAllNodesTogether) {
  Archive file("tied");
  file.change_nodes([](json& nodes) {
    json made = node(nodes, "relu");
    made["target"] = "torch.ops.aten.zeros.default";
    made["inputs"] = json::array();
    argument(made, "size") = {{"as_ints", {1 << 18, 1}}};
    for (int i = 0; i < 100; ++i) {
      made["name"] = "made" + std::to_string(i);
      made["outputs"] = {{{"as_tensor", {{"name", "relu"}}}}};
      nodes.insert(nodes.begin(), made);
    }
  });
  const Graph graph = file.read();
  ASSERT_EQ(graph.lacking.size(), 36u);  // 64 of 2^18 elements are the 2^24 that are possible
  EXPECT_THAT(graph.lacking[0].reason, HasSubstr("for all constants of a file, 0 are left"));
}

TEST(Pt2, RefusesDocumentsThatAreMuchLargerThanTheFile) {
  Archive file("tied");
  std::string& model = file.member("models/model.json");
  model.insert(0, 17 << 20, ' ');
  EXPECT_EQ(file.error(), "no error");
  file.pack("models/model.json");
  EXPECT_THAT(file.error(), HasSubstr("more than 16777216"));
}

TEST(Pt2, RefusesManyViewsOfTheSameBytes) {
  Archive file("tied");
  file.member("data/weights/large") = std::string(4 << 20, '\0');
  file.change("data/weights/model_weights_config.json", [](json& config) {
    for (int i = 0; i < 22; ++i) {
      json tensor = config["config"]["frozen.weight"];
      tensor["path_name"] = "large";
      tensor["tensor_meta"]["sizes"] = {{{"as_int", 1 << i}}, {{"as_int", (1 << 20) >> i}}};
      tensor["tensor_meta"]["strides"] = {{{"as_int", 1}}, {{"as_int", 1 << i}}};
      if (i < 21) config["config"]["view" + std::to_string(i)] = tensor;
    }
  });
  EXPECT_THAT(file.error(), HasSubstr("at most"));
  file.change("data/weights/model_weights_config.json", [](json& config) {
    for (int i = 5; i < 21; ++i) config["config"].erase("view" + std::to_string(i));
  });
  EXPECT_EQ(file.error(), "no error");
}

TEST(Pt2, IsReadFromEveryPrefixWithoutHarm) {
  Archive file("tied");
  std::string& text = file.member("models/model.json");
  const std::string whole = text;
  for (std::size_t size = 0; size < whole.size(); size += 997) {
    text = whole.substr(0, size);
    EXPECT_NE(file.error(), "no error");
  }
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
