#pragma once
// Makes ONNX files for tests.

#include <cstring>
#include <string>
#include <vector>

#include "ops/graph/onnx.h"
#include "ops/graph/onnx.pb.h"

namespace troupe::testing_ops {

using Dims = std::vector<std::int64_t>;

/// An attribute with one number, or several integers, or a text.
struct OnnxAttribute {
  onnx_wire::Attribute proto;

  OnnxAttribute(const std::string& name, int type) {
    proto.set_name(name);
    proto.set_type(type);
  }
  OnnxAttribute(const std::string& name, std::int64_t value) : OnnxAttribute(name, 2) {
    proto.set_i(value);
  }
  OnnxAttribute(const std::string& name, double value) : OnnxAttribute(name, 1) {
    proto.set_f(static_cast<float>(value));
  }
  OnnxAttribute(const std::string& name, const char* value) : OnnxAttribute(name, 3) {
    proto.set_s(value);
  }
  OnnxAttribute(const std::string& name, const Dims& values) : OnnxAttribute(name, 7) {
    for (const std::int64_t value : values) proto.add_ints(value);
  }
};

/// A model with the input "x", whose nodes and tensors are added one by one. The result of the last
/// node is the output.
class OnnxModel {
 public:
  explicit OnnxModel(const Dims& sample, int element_type = 1) {
    model_.set_ir_version(10);
    model_.set_producer_name("pytorch");
    model_.add_opset_import()->set_version(20);
    add_input("x", sample, element_type);
  }

  onnx_wire::Model& proto() { return model_; }
  onnx_wire::Graph& graph() { return *model_.mutable_graph(); }

  void add_input(const std::string& name, const Dims& sample, int element_type = 1) {
    auto& input = *graph().add_input();
    input.set_name(name);
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(element_type);
    type.mutable_shape()->add_dim()->set_dim_param("batch");
    for (const std::int64_t dim : sample) type.mutable_shape()->add_dim()->set_dim_value(dim);
  }

  onnx_wire::Node& node(const std::string& operation, const std::vector<std::string>& inputs,
                        const std::string& output,
                        const std::vector<OnnxAttribute>& attributes = {}) {
    onnx_wire::Node& node = *graph().add_node();
    node.set_op_type(operation);
    node.set_name("node_" + output);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
    for (const OnnxAttribute& attribute : attributes) *node.add_attribute() = attribute.proto;
    graph().clear_output();
    graph().add_output()->set_name(output);
    return node;
  }

  /// A constant of i64 with one axis, or of no axis.
  void integers(const std::string& name, const Dims& values) {
    node("Constant", {}, name, {{"value_ints", values}});
  }
  void integer(const std::string& name, std::int64_t value) {
    node("Constant", {}, name, {{"value_int", value}});
  }
  void real(const std::string& name, double value) {
    node("Constant", {}, name, {{"value_float", value}});
  }

  /// An f32 initializer; its elements are 0, 1, 2, … unless given.
  onnx_wire::Tensor& weight(const std::string& name, const Dims& dims,
                            std::vector<float> elements = {}) {
    onnx_wire::Tensor tensor;
    tensor.set_name(name);
    tensor.set_data_type(1);
    std::size_t count = 1;
    for (const std::int64_t dim : dims) {
      tensor.add_dims(dim);
      count *= static_cast<std::size_t>(dim);
    }
    for (std::size_t i = elements.size(); i < count; ++i) elements.push_back(static_cast<float>(i));
    tensor.set_raw_data(std::string(reinterpret_cast<const char*>(elements.data()),
                                    elements.size() * sizeof(float)));
    initializers_.push_back(std::move(tensor));
    return initializers_.back();
  }

  /// States the signature that PyTorch writes.
  void signature(const std::string& lines) {
    auto& entry = *graph().add_metadata_props();
    entry.set_key("pkg.torch.export.ExportedProgram.graph_signature");
    entry.set_value(lines);
  }

  std::string bytes() const {
    onnx_wire::Model rest = model_;
    rest.clear_graph();
    std::string graph = model_.graph().SerializeAsString();
    for (const auto& tensor : initializers_) graph += field(5, tensor.SerializeAsString());
    return rest.SerializeAsString() + field(7, graph);
  }

  graph::Graph read() const { return read_bytes(bytes()); }
  static graph::Graph read_bytes(const std::string& bytes,
                                 const std::filesystem::path& folder = {}) {
    return graph::parse_onnx(std::as_bytes(std::span(bytes)), "net.onnx", folder);
  }

 private:
  static std::string field(int number, const std::string& content) {
    std::string result(1, static_cast<char>(number * 8 + 2));
    std::size_t length = content.size();
    for (; length >= 128; length >>= 7) result += static_cast<char>(length % 128 + 128);
    return result + static_cast<char>(length) + content;
  }

  onnx_wire::Model model_;
  std::vector<onnx_wire::Tensor> initializers_;
};

}  // namespace troupe::testing_ops
