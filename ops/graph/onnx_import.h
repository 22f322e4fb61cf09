#pragma once
// State while an ONNX file is read: the graph so far, and the node that is read.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/graph/compositions.h"
#include "ops/graph/graph.h"
#include "ops/graph/onnx_evaluate.h"
#include "ops/graph/onnx_gelu.h"
#include "ops/graph/onnx_signature.h"

namespace troupe::graph::onnx {

/// An intermediate result of a dropout written in parts; it gets no Value because the whole becomes
/// one operator.
struct DropoutPart {
  enum class Step : std::uint8_t {
    noise,   ///< random numbers from 0 to 1
    kept,    ///< 1 where these are below `keep`, else 0
    scaled,  ///< divided by `keep`
  };
  Step step = Step::noise;
  Sizes shape;
  double keep = 1.0;
};

/// The value, constant or shape that a name stands for.
struct Known {
  ValueId value;                           ///< a tensor of the graph
  std::shared_ptr<const Numbers> numbers;  ///< known when the file is read; `value`: its constant
  std::vector<ValueId> parts;              ///< a sequence of tensors
  std::optional<GeluPart> gelu;            ///< a part of a GELU
  std::optional<DropoutPart> dropout;      ///< a part of a dropout
  bool lacks = false;                      ///< what a node that Troupe lacks would compute
};

/// Thrown by a node that reads what a lacking node would compute.
struct ReadsLacking {};

class Import;

/// A node, with what is known of its inputs. Valid while the node is read.
class Call : public NodeView {
 public:
  Call(Import& import, const onnx_wire::Node& node);

  // Inputs. A name without a meaning is an error of the file.
  bool has_input(int index) const { return !input(index).empty(); }
  const Known& known(int index) const;
  const Numbers* numbers(int index) const;  ///< null if absent or not known when the file is read
  const Numbers& needed_numbers(int index) const;  ///< refuses the node if there are none
  ValueId value(int index);                        ///< known numbers become a constant
  ValueId buffer(int index);  ///< a running statistic; refuses the node otherwise
  const std::optional<GeluPart>& gelu(int index) const { return known(index).gelu; }
  const std::optional<DropoutPart>& dropout(int index) const { return known(index).dropout; }
  bool is_known(int index) const { return numbers(index) != nullptr; }
  const Value& at(ValueId id) const;
  const Sizes& shape(ValueId id) const { return at(id).shape; }
  /// The node that computes a value; null for others.
  const Node* producer(ValueId id) const;
  template <class O>
  const O* producer_as(ValueId id) const {
    const Node* node = producer(id);
    return node ? std::get_if<O>(&node->operation) : nullptr;
  }

  /// Appends a node to the graph. Returns its result, or the first input where the operator would
  /// not change it (Reshape and Expand to the same shape).
  ValueId add(Operator operation, std::vector<ValueId> inputs);
  ValueId constant(const Numbers& numbers);  ///< a new value
  Budget& budget();
  const std::string& counter_of(const std::string& running_mean) const;

  // Results. An absent name is ignored.
  void give(ValueId result, int index = 0);
  void give(Numbers result);
  void give(std::vector<ValueId> parts);
  void give(const GeluPart& part);
  void give(DropoutPart part);

 private:
  friend class Import;
  void give(int index, Known known);
  Known& meaning(int index) const;

  Import& import_;
};

/// Appends nodes that belong to a node of the file.
AddNode adder(Call& call);

using Handler = void (*)(Call&);
/// The function that reads nodes of an operation with inputs that depend on data; null for none.
Handler find_handler(std::string_view operation);
using NamedHandler = std::pair<std::string_view, Handler>;
std::span<const NamedHandler> layer_handlers();
std::span<const NamedHandler> movement_handlers();
std::span<const NamedHandler> elementwise_handlers();

void random_uniform_like(Call& call);
void less(Call& call);
/// Whether the node is a part of a dropout or completes one, and has been read as such.
bool give_dropout(Call& call, ArithmeticOperation operation);

/// Reads scores * values as one Attention where the scores are a softmax of products, or a dropout
/// of one; nothing elsewhere.
std::optional<ValueId> as_attention(Call& call, ValueId scores, ValueId values);
/// Scores of -1e9 and below: their softmax is zero, as that of minus infinity.
constexpr double as_good_as_minus_infinity = -1e9;
/// An additive mask of Attention: minus infinity where a mask of truth values is false.
Numbers additive_mask(Call& call, const Numbers& mask);
/// Adds attention with a known mask, which is left out where it is the causal one.
ValueId add_attention(Call& call, ValueId q, ValueId k, ValueId v, const Numbers* mask, bool causal,
                      double scale, double dropout = 0.0);
/// The same with a mask that is trained or computed.
ValueId add_attention(Call& call, ValueId q, ValueId k, ValueId v, ValueId mask, bool causal,
                      double scale);

/// Builds the graph of a file.
class Import {
 public:
  /// `file` has to outlive the object.
  explicit Import(const File& file);
  /// Once. Throws Error.
  Graph run();

 private:
  friend class Call;
  void add_input();
  void read_node(const onnx_wire::Node& node);
  void apply(Call& call);
  /// Gives what `evaluate` returns, or a Shape; false if there is nothing.
  bool evaluate_node(Call& call);
  void skip(Call& call);
  std::optional<Sizes> stated_shape(const onnx_wire::ValueInfo& info) const;
  ValueId stated_value(const onnx_wire::ValueInfo& info, Sizes shape);
  /// The meaning of a name, which for initializers is made at the first use; null: none.
  Known* find(const NodeView& node, const std::string& name);
  Known initializer(const NodeView& node, const StoredTensor& tensor, Value::Kind kind);
  ValueId add_value(Value value);
  void finish();
  void keep_needed();
  void add_parameters_of_lacking();
  void note_missing_dropout();
  void add_weights();
  void add_constants();

  const File& file_;
  Signature signature_;
  Budget budget_;
  Graph graph_;
  std::unordered_map<std::string, const StoredTensor*> initializers_;
  std::unordered_map<std::string, Known> known_;
  std::unordered_map<std::string, const onnx_wire::ValueInfo*> stated_;
  std::vector<ValueId> read_by_lacking_;
  std::unordered_map<int, std::size_t> producers_;  ///< value → index of its node
  std::map<std::string, std::string> keys_;         ///< initializer → the first of its names
};

}  // namespace troupe::graph::onnx
