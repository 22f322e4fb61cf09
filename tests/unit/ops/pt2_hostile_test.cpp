// What the reader of .pt2 answers to files that are damaged, hostile or of other kinds.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ops/graph/read_graph.h"
#include "pt2_archive.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe::graph {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Pt2, RefusesWindowsThatReachFarBeyondTheImage) {
  Archive file("draws");
  file.change_nodes([](json& nodes) {
    argument(node(nodes, "max_pool2d"), "kernel_size") = {{"as_ints", {1 << 19, 1 << 19}}};
  });
  EXPECT_THAT(file.error(), HasSubstr("max_pool"));
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
        fmt::format("Add(Mul(batch, {0}), Mul(Integer(1), {0}), {0})", largest)})
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
    argument(made, "former") = {{"as_tensor", {{"name", "relu"}}}};  // so that all are needed
    node(nodes, "relu")["target"] = "torch.ops.aten.elu.default";
    argument(node(nodes, "relu"), "former") = argument(made, "former");
    for (int i = 0; i < 100; ++i) {
      made["name"] = "made" + std::to_string(i);
      made["outputs"] = {{{"as_tensor", {{"name", "relu"}}}}};
      nodes.insert(nodes.begin(), made);
    }
  });
  const Graph graph = file.read();
  // 64 of 2^18 elements are the 2^24 that are possible; the last is elu.
  ASSERT_EQ(graph.lacking.size(), 37u);
  EXPECT_THAT(graph.lacking[0].reason, HasSubstr("for all constants of the file"));
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

}  // namespace
}  // namespace troupe::graph
