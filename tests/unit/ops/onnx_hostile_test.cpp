// ONNX files that cannot be trained, and damaged or hostile ones: clear errors, bounded memory.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "graph_files.h"
#include "onnx_model.h"
#include "ops/graph/read_graph.h"
#include "runtime/error.h"

namespace troupe::testing_ops {
namespace {

namespace fs = std::filesystem;
using graph::Graph;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t huge = std::int64_t{1} << 40;

Error error_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::internal, "none");
}
Error error_of(const OnnxModel& model) {
  return error_of([&] { (void)model.read(); });
}

OnnxModel linear_model() {
  OnnxModel model({3});
  model.weight("fc.weight", {2, 3});
  model.weight("fc.bias", {2});
  model.node("Gemm", {"x", "fc.weight", "fc.bias"}, "y", {{"transB", std::int64_t{1}}});
  return model;
}

/// The reason for which the only lacking node is lacking.
std::string reason_of(const OnnxModel& model) {
  const Graph graph = model.read();
  EXPECT_EQ(graph.lacking.size(), 1u);
  return graph.lacking.empty() ? "" : graph.lacking[0].reason;
}

TEST(InferenceOnnx, IsRefusedWithTheExportLineIfTheExportHasRewrittenNodes) {
  OnnxModel model = linear_model();
  auto& entry = *model.graph().mutable_node(0)->add_metadata_props();
  entry.set_key("pkg.onnxscript.rewriter.rule_name");
  entry.set_value("RemoveOptionalBias, FuseBatchNormIntoConv, RemoveOptionalBias");
  const Error error = error_of(model);
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("has folded batch norm into it"), testing::Not(HasSubstr("Remove"))));
  EXPECT_THAT(error.remedy(), HasSubstr("optimize=False"));
}

TEST(InferenceOnnx, IsRefusedWithoutAWordOfBatchNormIfItHasNone) {
  OnnxModel rewritten = linear_model();
  auto& entry = *rewritten.graph().mutable_node(0)->add_metadata_props();
  entry.set_key("pkg.onnxscript.rewriter.rule_name");
  entry.set_value("MaterializeReshapeShape");
  OnnxModel merged = linear_model();
  merged.signature("a: PARAMETER target='fc.weight'\nb: PARAMETER target='head.weight'\n");
  for (const OnnxModel& model : {rewritten, merged})
    EXPECT_THAT(error_of(model).message(),
                AllOf(HasSubstr("optimize=True"), testing::Not(HasSubstr("batch norm"))));
}

TEST(InferenceOnnx, IsRefusedIfAParameterOfItsSignatureIsMissing) {
  OnnxModel model = linear_model();
  model.signature(
      "a: PARAMETER target='fc.weight'\nb: PARAMETER target='bn.weight'\n"
      "c: BUFFER target='bn.num_batches_tracked' persistent=True\n");
  const Error error = error_of(model);
  EXPECT_THAT(error.message(), HasSubstr("'bn.weight'"));
  EXPECT_THAT(error.remedy(), HasSubstr("optimize=False"));
}

TEST(InferenceOnnx, IsRefusedIfItMergesEqualParameters) {
  OnnxModel model({3});
  model.weight("one.weight", {3}, {1, 1, 1});
  model.signature("a: PARAMETER target='one.weight'\nb: PARAMETER target='two.weight'\n");
  auto& node = model.node("Mul", {"x", "one.weight"}, "y");
  auto& scopes = *node.add_metadata_props();
  scopes.set_key("pkg.torch.onnx.name_scopes");
  scopes.set_value("['', 'two', 'mul']");
  EXPECT_THAT(error_of(model).message(), HasSubstr("'two.weight'"));
}

TEST(InferenceOnnx, IsRefusedIfParametersHaveLostTheirNames) {
  OnnxModel model({3});
  model.weight("onnx::MatMul_32", {3, 2});
  model.node("MatMul", {"x", "onnx::MatMul_32"}, "y");
  EXPECT_THAT(error_of(model).message(), HasSubstr("onnx::MatMul_32"));
}

TEST(ForeignOnnx, IsRefusedForAFixedBatch) {
  OnnxModel model = linear_model();
  auto& shape =
      *model.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(0)->set_dim_value(32);
  EXPECT_THAT(error_of(model).message(), HasSubstr("fixed size 32"));
}

TEST(ForeignOnnx, IsRefusedForSeveralInputsOrOutputs) {
  OnnxModel model = linear_model();
  model.add_input("second", {3});
  EXPECT_THAT(error_of(model).message(), HasSubstr("2 inputs"));
  OnnxModel outputs = linear_model();
  outputs.graph().add_output()->set_name("x");
  EXPECT_THAT(error_of(outputs).message(), HasSubstr("2 outputs"));
}

TEST(ForeignOnnx, IsRefusedForFunctionsSparseTensorsAndOtherVersions) {
  OnnxModel functions = linear_model();
  functions.proto().add_functions("anything");
  EXPECT_THAT(error_of(functions).message(), HasSubstr("1 function"));
  OnnxModel sparse = linear_model();
  sparse.graph().add_sparse_initializer("anything");
  EXPECT_THAT(error_of(sparse).message(), HasSubstr("sparse"));
  OnnxModel old = linear_model();
  old.proto().mutable_opset_import(0)->set_version(9);
  EXPECT_THAT(error_of(old).message(), HasSubstr("version 9"));
}

TEST(ForeignOnnx, ListsControlFlowAndOtherDomainsAsLacking) {
  OnnxModel branch = linear_model();
  auto& node = branch.node("If", {"y"}, "z");
  auto& body = *node.add_attribute();
  body.set_name("then_branch");
  body.set_type(5);
  body.set_g(std::string(100'000, '\x0a'));  // a graph in a graph in …
  EXPECT_EQ(branch.read().lacking.at(0).operation, "If");
  OnnxModel domain = linear_model();
  domain.node("Relu", {"y"}, "z").set_domain("com.microsoft");
  EXPECT_THAT(reason_of(domain), HasSubstr("com.microsoft"));
}

TEST(ForeignOnnx, RefusesRunningStatisticsThatAreComputed) {
  OnnxModel model({3});
  model.weight("n.weight", {3});
  model.weight("n.bias", {3});
  model.node("Constant", {}, "m", {{"value_floats", std::int64_t{0}}});
  model.graph().mutable_node(0)->mutable_attribute(0)->set_type(6);
  for (int i = 0; i < 3; ++i) model.graph().mutable_node(0)->mutable_attribute(0)->add_floats(0);
  model.node("BatchNormalization", {"x", "n.weight", "n.bias", "m", "m"}, "y");
  EXPECT_THAT(reason_of(model), HasSubstr("running statistics"));
}

TEST(HostileOnnx, IsRefusedAtEachTruncation) {
  const std::string whole = linear_model().bytes();
  ASSERT_EQ(OnnxModel::read_bytes(whole).nodes.size(), 1u);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW((void)OnnxModel::read_bytes(whole.substr(0, size)), Error) << size;
}

TEST(HostileOnnx, WithAnyChangedByteIsAGraphOrAnError) {
  const std::string whole = linear_model().bytes();
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const int change : {1, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ change);
      try {
        (void)OnnxModel::read_bytes(changed);
      } catch (const Error&) {
      }
    }
}

TEST(HostileOnnx, WithACycleIsRefused) {
  OnnxModel model({3});
  model.node("Add", {"x", "b"}, "a");
  model.node("Relu", {"a"}, "b");
  const Error error = error_of(model);
  EXPECT_EQ(error.code(), ErrorCode::bad_file);
  EXPECT_THAT(error.message(), HasSubstr("no node before it makes its input 'b'"));
}

TEST(HostileOnnx, WithTheSameNameTwiceIsRefused) {
  OnnxModel results({3});
  results.node("Relu", {"x"}, "y");
  results.node("Tanh", {"x"}, "y");
  EXPECT_THAT(error_of(results).message(), HasSubstr("'y'"));
  OnnxModel initializers = linear_model();
  initializers.weight("fc.bias", {2});
  EXPECT_THAT(error_of(initializers).message(), HasSubstr("two initializers 'fc.bias'"));
  OnnxModel shadow = linear_model();
  shadow.node("Relu", {"y"}, "fc.bias");
  EXPECT_THAT(error_of(shadow).message(), HasSubstr("fc.bias"));
}

TEST(HostileOnnx, WithTensorsThatAreNotTheirBytesIsRefused) {
  for (const Dims& dims : {Dims{2, 2}, Dims{-1}, Dims{huge, huge}, Dims{huge}, Dims(7, 1)}) {
    OnnxModel model({3});
    model.weight("w", {3}).clear_dims();
    auto& weight = model.weight("v", {3});
    weight.clear_dims();
    for (const std::int64_t dim : dims) weight.add_dims(dim);
    model.node("Relu", {"x"}, "y");
    EXPECT_THROW((void)model.read(), Error) << dims[0];
  }
}

TEST(HostileOnnx, WithTypesOfTextIsRefused) {
  for (const int type : {0, 8, 14, 17, 99, -1}) {
    OnnxModel model = linear_model();
    model.weight("v", {3}).set_data_type(type);
    EXPECT_EQ(error_of(model).code(), ErrorCode::unsupported) << type;
  }
}

TEST(HostileOnnx, DoesNotMakeConstantsOfAnySize) {
  OnnxModel filled({3});
  filled.integers("n", {huge});
  filled.node("ConstantOfShape", {"n"}, "c");
  filled.node("Add", {"x", "c"}, "y");
  EXPECT_THAT(reason_of(filled), HasSubstr("elements"));

  OnnxModel expanded({3});
  expanded.integers("n", {1 << 20, 1 << 20});
  expanded.real("one", 1);
  expanded.node("Expand", {"one", "n"}, "c");
  expanded.node("Add", {"x", "c"}, "y");
  EXPECT_THAT(reason_of(expanded), HasSubstr("elements"));

  OnnxModel ranged({3});
  ranged.integer("zero", 0);
  ranged.integer("end", huge);
  ranged.integer("one", 1);
  ranged.node("Range", {"zero", "end", "one"}, "c");
  ranged.node("Cast", {"c"}, "f", {{"to", std::int64_t{1}}});
  ranged.node("Add", {"x", "f"}, "y");
  EXPECT_THAT(reason_of(ranged), HasSubstr("elements"));
}

TEST(HostileOnnx, WithANodeThatLacksItsInputsIsRefused) {
  for (const std::vector<std::string>& inputs : {std::vector<std::string>{}, {"zero"}}) {
    OnnxModel model({3});
    model.integer("zero", 0);
    model.node("CastLike", inputs, "c");
    model.node("Add", {"x", "c"}, "y");
    EXPECT_EQ(error_of(model).code(), ErrorCode::bad_file) << inputs.size();
  }
}

TEST(HostileOnnx, LimitsTheSumOfItsConstants) {
  OnnxModel model({3});
  model.integers("n", {1 << 22});
  for (int i = 0; i < 9; ++i) model.node("ConstantOfShape", {"n"}, fmt::format("c{}", i));
  model.node("Relu", {"x"}, "y");
  EXPECT_FALSE(model.read().lacking.empty());
}

TEST(HostileOnnx, WithRangesWithoutEndIsRefused) {
  for (const double step : {0.0, 1e-30}) {
    OnnxModel model({3});
    model.real("zero", 0);
    model.real("end", 1e30);
    model.real("step", step);
    model.node("Range", {"zero", "end", "step"}, "c");
    model.node("Add", {"x", "c"}, "y");
    EXPECT_THROW((void)model.read(), Error) << step;
  }
}

TEST(HostileOnnx, WithAttributesOfOtherTypesIsRefused) {
  OnnxModel model({3});
  model.node("Softmax", {"x"}, "y", {{"axis", "one"}});
  EXPECT_THAT(error_of(model).message(), HasSubstr("'axis'"));
  OnnxModel pads({1, 8, 8});
  pads.weight("w", {1, 1, 3, 3});
  pads.node("Conv", {"x", "w"}, "y", {{"strides", Dims{huge, -1}}});
  EXPECT_EQ(error_of(pads).code(), ErrorCode::bad_file);
}

TEST(HostileOnnx, WithHugePaddingIsRefused) {
  for (const std::int64_t padding : {INT64_MAX, std::int64_t{-1}}) {
    OnnxModel model({1, 8, 8});
    model.node("MaxPool", {"x"}, "y",
               {{"kernel_shape", Dims{2, 2}}, {"pads", Dims{padding, 0, padding, 0}}});
    const Error error = error_of(model);
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    EXPECT_THAT(error.message(), HasSubstr(fmt::format("'pads' has {}", padding)));
  }
}

TEST(HostileOnnx, WithAnInputThatNoMachineHoldsIsRefused) {
  OnnxModel model({huge, huge, huge});
  model.node("Relu", {"x"}, "y");
  EXPECT_THAT(error_of(model).message(), HasSubstr("too large"));
  OnnxModel sum({INT64_MAX});
  sum.node("Concat", {"x", "x"}, "y", {{"axis", std::int64_t{1}}});
  EXPECT_THAT(error_of(sum).message(), HasSubstr("9223372036854775807"));
}

TEST(HostileOnnx, IgnoresHugeShapesThatItStatesOfUnknownNodes) {
  OnnxModel model({3});
  model.node("Unknown", {"x"}, "y");
  auto& info = *model.graph().mutable_output(0);
  auto& shape = *info.mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.add_dim()->set_dim_param("batch");
  shape.add_dim()->set_dim_value(INT64_MAX);
  const Graph graph = model.read();
  EXPECT_EQ(graph.lacking.size(), 1u);
  EXPECT_TRUE(graph.value(graph.output).shape.empty());
}

TEST(HostileOnnx, DividesNoAxisIntoAnyNumberOfParts) {
  OnnxModel model({huge});
  model.integer("one", 1);
  model.node("SplitToSequence", {"x", "one"}, "parts", {{"axis", std::int64_t{1}}});
  model.node("SequenceAt", {"parts", "one"}, "y");
  EXPECT_THROW((void)model.read(), Error);
}

class ExternalData : public testing::Test {
 protected:
  ExternalData() { fs::create_directories(folder_ / "models"); }
  ~ExternalData() override { fs::remove_all(folder_); }

  void write(const std::string& name, std::size_t bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << std::string(bytes, '\0');
  }
  Graph read(const std::string& location, const std::string& offset = "4",
             const std::string& length = "12") const {
    OnnxModel model({3});
    auto& weight = model.weight("w", {3});
    weight.clear_raw_data();
    weight.set_data_location(1);
    for (const auto& [key, value] :
         {std::pair("location", location), {"offset", offset}, {"length", length}}) {
      auto& entry = *weight.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    model.node("Mul", {"x", "w"}, "y");
    return OnnxModel::read_bytes(model.bytes(), folder_ / "models");
  }
  std::string message(const std::string& location, const std::string& offset = "4",
                      const std::string& length = "12") const {
    return error_of([&] { (void)read(location, offset, length); }).message();
  }

  fs::path folder_ =
      fs::temp_directory_path() / ("onnx_external_" + std::to_string(::getpid()) + "_" +
                                   testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(ExternalData, IsReadFromTheFolderOfTheModel) {
  const std::vector<float> elements{7, 1, 2, 3};
  std::ofstream(folder_ / "models/net.data", std::ios::binary)
      .write(reinterpret_cast<const char*>(elements.data()), 16);
  const Graph graph = read("net.data");
  const Tensor tensor = graph.weights.read("w");
  EXPECT_EQ(tensor.data<float>()[0], 1);
  EXPECT_EQ(tensor.data<float>()[2], 3);
}

TEST_F(ExternalData, IsNotReadFromElsewhere) {
  write("secret", 100);
  write("models/net.data", 100);
  fs::create_symlink(folder_ / "secret", folder_ / "models/link");
  for (const std::string location :
       {"../secret", "/etc/passwd", "..", ".", "", "models/../net.data", "link", "a\\b"})
    EXPECT_THAT(message(location), HasSubstr("only an ordinary file in the folder")) << location;
}

TEST_F(ExternalData, IsNotReadBeyondItsFile) {
  write("models/net.data", 16);
  EXPECT_NO_THROW((void)read("net.data", "4", "12"));
  EXPECT_THAT(message("net.data", "5", "12"), HasSubstr("has 16 bytes"));
  EXPECT_THAT(message("net.data", "0", "16"), HasSubstr("states 16"));
  EXPECT_THAT(message("net.data", "1000000000000", "12"), HasSubstr("has 16 bytes"));
  EXPECT_THAT(message("net.data", "-4", "12"), HasSubstr("not a number of bytes"));
  EXPECT_THAT(message("net.data", "99999999999999999999999", "12"),
              HasSubstr("not a number of bytes"));
  EXPECT_NE(message("missing"), "");
}

TEST(OnnxFile, IsToldFromOtherFilesByItsContent) {
  const std::string bytes = linear_model().bytes();
  EXPECT_TRUE(graph::looks_like_onnx(std::as_bytes(std::span(bytes))));
  const std::string archive("PK\x03\x04", 4), json = "{\"a\": 1}", empty;
  const std::string safetensors("\x08\x01\x12\0\0\0\0\0{\"a\"", 12);
  for (const std::string& other : {archive, json, empty, safetensors})
    EXPECT_FALSE(graph::looks_like_onnx(std::as_bytes(std::span(other))));
}

}  // namespace
}  // namespace troupe::testing_ops
