#pragma once
#include <map>

#include "ops/graph/block_module.h"
#include "ops/primitives/elementwise.h"
#include "ops/tape.h"

namespace troupe::graph {

/// Records the steps of one block in one pass.
class Recorder {
 public:
  Recorder(BlockModule& block, Tape& tape, troupe::Value x);
  troupe::Value run();

 private:
  troupe::Value record(const Step& step);
  /// What a value is on this tape; a parameter or a constant is recorded at its first use.
  troupe::Value value(ValueId id);
  troupe::Value input(const Node& node, std::size_t i) { return value(node.inputs.at(i)); }
  static bool has(const Node& node, std::size_t i) {
    return i < node.inputs.size() && node.inputs[i].index >= 0;
  }
  ParameterIndex parameter(const Node& node, std::size_t i) const;
  Tensor constant(ValueId id);
  /// Numbers in the precision of the pass and on its device, for the module to keep.
  Tensor lasting(const Tensor& numbers) const;
  LayerKernel& kernel(std::size_t node, const auto& make);

  troupe::Value convolution(const Step& step, const Node& node, ConvolutionOptions options);
  troupe::Value linear(const Step& step, const Node& node);
  troupe::Value batch_norm(const Step& step, const Node& node, const BatchNorm& options);
  troupe::Value embedding(const Node& node, const Embedding& options);
  troupe::Value attention(const Step& step, const Node& node, const Attention& options);
  troupe::Value dropout(const Step& step, const Node& node, const Dropout& options);
  primitives::Dropout drawing(const Step& step, double probability) const;
  const BlockModule::OpenMask& open_mask(ValueId id);
  Tensor causal_mask(const Node& node, std::int64_t tokens, std::int64_t keys);
  troupe::Value concatenation(const Node& node, int axis);

  BlockModule& block_;
  const Graph& graph_;
  Tape& tape_;
  std::int64_t samples_;
  std::map<ValueId, troupe::Value> values_;
};

}  // namespace troupe::graph
