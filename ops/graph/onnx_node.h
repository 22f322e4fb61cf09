#pragma once
// A node of an ONNX file: its attributes, and where it comes from.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/graph/onnx_file.h"

namespace troupe::graph::onnx {

/// The shortest decimal number that gives this f32, as f64: ONNX stores 0.1 as f32.
double shortest_decimal(float value);

/// A node that Troupe cannot run, or that the export has written for inference.
class NodeRefused : public Error {
 public:
  /// Without a remedy, that of the Error is onnx_export_line.
  NodeRefused(const std::string& where, std::string reason, std::string remedy)
      : Error(ErrorCode::unsupported, where + ": " + reason,
              remedy.empty() ? onnx_export_line : remedy),
        reason_(std::move(reason)),
        own_remedy_(std::move(remedy)) {}

  const std::string& reason() const { return reason_; }
  const std::string& own_remedy() const { return own_remedy_; }  ///< may be empty

 private:
  std::string reason_, own_remedy_;
};

/// A view of a node. Functions throw Error naming node, module and line.
class NodeView {
 public:
  NodeView(const onnx_wire::Node& node, const std::string& origin)
      : node_(&node), origin_(&origin) {}

  const std::string& operation() const { return node_->op_type(); }
  const std::string& origin() const { return *origin_; }
  // The beginnings of these texts, since a node may become many.
  std::string name() const;    ///< of the node, or of its first output
  std::string module() const;  ///< "layer1.0.conv1"; empty if the file does not say
  bool has_module() const;     ///< whether the file says it; the model itself is ""
  std::string source() const;  ///< "net.py, line 12"; empty if the file does not say
  /// Whether the file says that a batch norm was exported in evaluation mode: by an attribute
  /// (dynamo=False), or by PyTorch's name of the operator.
  bool is_for_inference() const;
  /// The arguments that PyTorch gave its operator of this name ("embedding.default"), as it notes
  /// them: "%p_e_weight", "%x", "10". Empty if the file does not say.
  std::vector<std::string> noted_arguments(std::string_view torch_operator) const;

  int input_count() const { return node_->input_size(); }
  int output_count() const { return node_->output_size(); }
  /// A name; empty for an input that is absent.
  const std::string& input(int index) const;
  const std::string& output(int index) const { return node_->output(index); }

  // Attributes. Throw Error (bad_file) if one has another type than is asked for.
  bool has(std::string_view attribute) const { return find(attribute) != nullptr; }
  std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const;
  double real(std::string_view attribute, double otherwise) const;  ///< shortest_decimal
  std::string text(std::string_view attribute, std::string_view otherwise) const;
  std::optional<std::vector<std::int64_t>> integers(std::string_view attribute) const;
  std::vector<double> reals(std::string_view attribute) const;
  const onnx_wire::Tensor* tensor(std::string_view attribute) const;

  /// "net.onnx: node 'conv2d' (Conv) in module 'layer1', net.py, line 12".
  std::string where() const;
  /// Throws NodeRefused: what Troupe cannot do with this node.
  [[noreturn]] void refuse(std::string_view what, std::string remedy = {}) const;
  /// Throws Error (bad_file): what is wrong with this node.
  [[noreturn]] void damaged(std::string_view what) const;
  /// What `compute` returns. An Error that it throws gets the node before its message.
  template <class Compute>
  auto checked(Compute compute) const {
    try {
      return compute();
    } catch (const Error& error) {
      damaged(error.message());
    }
  }

 private:
  const onnx_wire::Attribute* find(std::string_view attribute) const;
  const onnx_wire::Attribute* find(std::string_view attribute, int type) const;
  std::string metadata(std::string_view key) const;

  const onnx_wire::Node* node_;
  const std::string* origin_;
};

}  // namespace troupe::graph::onnx
