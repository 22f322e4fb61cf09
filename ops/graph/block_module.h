#pragma once
// A block of a graph as a module: it declares the parameters that its nodes read, and records the
// primitives of its steps.

#include <map>
#include <memory>
#include <set>
#include <string>

#include "ops/graph/model_of.h"
#include "ops/graph/partition.h"
#include "ops/nn/module.h"

namespace troupe::graph {

class BlockModule final : public nn::Module {
 public:
  /// The `first` block also holds constants (Graph::constants) and tensors that no block reads
  /// (`untouched`), so that exports have all names.
  BlockModule(std::shared_ptr<const Graph> graph, GraphBlock block,
              const GraphModelOptions& options, bool first, std::vector<std::string> untouched);

  void declare(StateSpec& spec) override;
  troupe::Value forward(Tape& tape, troupe::Value x) override;
  bool begins_with_convolution() const override;

 private:
  friend class Recorder;

  void count_uses();
  void check_shared() const;
  /// Whether a single layer reads the parameter, so that it can write its gradient.
  bool is_own(ValueId value) const;
  void declare_parameter(StateSpec& spec, ValueId id, const Initializer& initializer);
  void declare_constants(StateSpec& spec) const;
  void declare_norm(StateSpec& spec, const Node& node);
  bool is_attentions_output_bias(std::string_view name) const;
  Initializer initializer_of(const Node& node, std::size_t input) const;
  std::function<Tensor()> reader(const std::string& name) const;
  const Node& node_of(const Step& step) const { return graph_->nodes[step.node]; }

  std::shared_ptr<const Graph> graph_;
  GraphBlock block_;
  GraphModelOptions options_;
  bool first_;
  std::vector<std::string> untouched_;
  std::map<ValueId, int> uses_;  ///< of parameters and buffers, in this block
  std::map<ValueId, ParameterIndex> parameters_;
  std::map<ValueId, BufferIndex> buffers_;
  std::map<std::size_t, std::unique_ptr<LayerKernel>> kernels_;  ///< by node; made by a pass
  std::map<ValueId, Tensor> constants_;                          ///< on the device of the passes
  /// A constant attention mask. In `mask`, rows that mask all keys instead mask none. `seen` has 0
  /// for these rows and 1 for others, and multiplies the attention weights; undefined if there are
  /// no such rows.
  struct OpenMask {
    Tensor mask, seen;
  };
  std::map<ValueId, OpenMask> open_masks_;
};

}  // namespace troupe::graph
