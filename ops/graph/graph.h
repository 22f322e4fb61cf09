#pragma once
// A model as a file describes it: operators and the values between them. The readers of formats
// make a Graph; ops/graph/model_of.h makes a Model of it.

#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ops/kernels.h"
#include "runtime/tensor/named_tensor.h"

namespace troupe::graph {

/// A size that may grow with the samples of a micro-batch: fixed + per_sample * samples.
struct Size {
  std::int64_t fixed = 0;
  std::int64_t per_sample = 0;

  std::int64_t of(std::int64_t samples) const { return fixed + per_sample * samples; }
  friend bool operator==(const Size&, const Size&) = default;
};
using Sizes = std::vector<Size>;

/// An index into Graph::values; negative: absent.
struct ValueId {
  int index = -1;
  auto operator<=>(const ValueId&) const = default;  // NOLINT(modernize-use-nullptr): not one
};

/// A tensor of the graph.
struct Value {
  enum class Kind : std::uint8_t {
    input,      ///< the samples
    computed,   ///< by a node
    parameter,  ///< trained; its initial value is in Graph::weights
    buffer,     ///< a running statistic
    constant,
  };
  Kind kind = Kind::computed;
  std::string name;  ///< a parameter's or buffer's key in the state_dict; others: for messages
  DType dtype = DType::f32;
  Sizes shape;
  Tensor constant = {};   ///< of Kind::constant; f64 or i64, row-major
  bool trainable = true;  ///< of a parameter: requires_grad
};

// The operators. The comments state their inputs. A [bias] may be absent.
struct Convolution {  // x, weight, [bias]; a weight of kernel_h 1 may lack this axis
  ConvolutionOptions options;
};
struct Linear {};   // x [..., in], weight [out, in], [bias]
struct BatchNorm {  // x, weight, bias, running_mean, running_var
  double epsilon = 1e-5;
  double momentum = 0.1;
  std::string counter = {};  ///< num_batches_tracked's key; empty: none
};
struct LayerNorm {  // x, [weight], [bias]; over the last axes, which have `features` elements
  std::int64_t features = 0;
  double epsilon = 1e-5;
};
struct Embedding {                // weight [rows, features], indices
  std::int64_t padding_row = -1;  ///< a row that gets no gradient from here; negative: none
};
struct Relu {};    // x
struct Activate {  // x
  ActivationFunction function = ActivationFunction::sigmoid;
};
struct Clamp {  // x
  double low = 0.0, high = 0.0;
};
struct Arithmetic {  // a, b; shapes are broadcast
  ArithmeticOperation operation = ArithmeticOperation::add;
};
struct Affine {  // x; x * factor + offset
  double factor = 1.0, offset = 0.0;
};
struct Matmul {};  // a [..., m, k], b [..., k, n]; outer axes are broadcast
/// Scaled dot-product attention. The mask is added to the scores; it may be trained or computed.
struct Attention {  // q, k, v [..., tokens, features], [mask]
  bool causal = false;
  double scale = 0.0;
  double dropout = 0.0;  ///< probability that a weight of a value is 0; training only
};
struct Softmax {  // x
  int axis = -1;
  bool logarithm = false;
};
struct Reduce {  // x; the sum or the mean over axes
  std::vector<int> axes;
  bool keeps_axes = false;
  bool mean = true;
};
struct MaxPool {  // x
  PoolOptions options;
};
struct AveragePool {  // x
  PoolOptions options;
};
struct AdaptiveAveragePool {  // x
  std::int64_t out_h = 1, out_w = 1;
};
struct Reshape {  // x
  Sizes shape;
};
struct Expand {  // x
  Sizes shape;
};
struct Permute {  // x
  std::vector<int> axes;
};
struct Slice {  // x; `count` elements of an axis
  int axis = 0;
  std::int64_t start = 0, count = 0;
};
struct Concatenate {  // any number of inputs
  int axis = 0;
};
struct Dropout {  // x
  double probability = 0.5;
  /// One number is drawn for each element of so many first axes: 1 drops whole samples, 2 whole
  /// channels; 0: all axes, single elements.
  int drawn_axes = 0;
};

using Operator =
    std::variant<Convolution, Linear, BatchNorm, LayerNorm, Embedding, Relu, Activate, Clamp,
                 Arithmetic, Affine, Matmul, Attention, Softmax, Reduce, MaxPool, AveragePool,
                 AdaptiveAveragePool, Reshape, Expand, Permute, Slice, Concatenate, Dropout>;

/// One operator applied to values.
struct Node {
  Operator operation;
  std::vector<ValueId> inputs;
  ValueId output;
  std::string name;    ///< in the file, such as "conv2d_3"
  std::string module;  ///< path of the module that it belongs to, such as "layer1.0.conv1"
  std::string source;  ///< line of Python, for messages; may be empty
};

/// Of all constants together that the nodes of a file make: a few bytes can ask for any number.
constexpr std::int64_t most_made_elements = std::int64_t{1} << 24;

/// A key of the state_dict with the tensor of another key.
struct Alias {
  std::string name;
  std::string of;
};

/// A node that Troupe cannot run.
struct Lacking {
  std::string operation;             ///< as the file calls it: "aten.elu.default" or "Elu"
  std::string name, module, source;  ///< as in Node
  std::string reason;                ///< why, if the operator is known; may be empty
  std::string remedy = {};           ///< empty: another operator in its place
};

/// A model with one input and one output. Nodes are in an order in which they can run.
struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  ValueId input, output;
  std::vector<Alias> aliases;  ///< tied parameters
  /// Parameters, buffers and counters, by their keys. Read when they are used.
  TensorSource weights;
  /// Tensors of the state_dict that training does not change and no node reads as a buffer.
  std::vector<NamedTensor> constants;
  /// Keys of parameters that no node of the file reads, not even one that was left out: a module
  /// that the model never calls has them. They are in `constants`, or in `values` if nodes lack.
  std::set<std::string> unread;
  /// Results may depend on constants that `values` lacks, because nodes of constants alone were
  /// computed.
  bool folds_constants = false;
  std::vector<Lacking> lacking;    ///< nodes that were left out; such a graph cannot be trained
  std::vector<std::string> notes;  ///< what the reader left out, for the user

  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id.index)]; }
};

}  // namespace troupe::graph
