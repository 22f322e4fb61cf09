#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "ops/models/model.h"
#include "ops/nn/state.h"
#include "ops/optim/optimizer.h"
#include "ops/tape.h"

namespace troupe {

/// The tensors of one version of a state, by index. Shared by the network and the forward passes
/// that began with it, so that a pass in flight never sees another version.
struct StateViews {
  StatePtr state;
  std::vector<Tensor> weights;
  std::vector<Tensor> averages;  ///< the moving average of the weights, if the state has one
  std::vector<Tensor> buffers;
  std::uint64_t version = 0;  ///< grows with each Network::use; kernels belong to one network
};

/// Consecutive blocks of a model: [first, last).
struct BlockRange {
  std::size_t first = 0;
  std::size_t last = SIZE_MAX;  ///< SIZE_MAX: to the end
  /// The same range in a model with this number of blocks; `last` is then never SIZE_MAX.
  BlockRange within(std::size_t blocks) const { return {first, last == SIZE_MAX ? blocks : last}; }
};

/// The forward pass of one micro-batch through a range of a Network: its tape, and the memory that
/// it writes. Destroying it abandons the micro-batch.
struct ForwardPass {
  ForwardPass(const StateSpec& spec, std::shared_ptr<const StateViews> from, const Pass& pass);
  ForwardPass(const ForwardPass&) = delete;
  ForwardPass& operator=(const ForwardPass&) = delete;

  /// The output of the last block.
  const Tensor& result() const { return tape.tensor(output); }
  /// Moves it out of the pass. Called once, after result().
  Tensor take_result();

  std::shared_ptr<const StateViews> views;
  Tensor gradients;   ///< flat, as StateVersion::weights; made by backward as a whole
  Tensor statistics;  ///< flat, as StateVersion::buffers; zero for blocks that it left out
  std::vector<Tensor> gradient_views, statistic_views;
  Tape tape;
  BlockRange blocks;               ///< of the network, that it went through
  std::vector<std::size_t> marks;  ///< of the tape, before each of them
  std::size_t blocks_left = 0;     ///< those that have not run backward
  Value output;
  DType input_dtype = DType::f32;  ///< that x came in
};

/// Ranges of consecutive blocks of a model with the state that they need: the arithmetic of one
/// stage, without actors. The state, blocks() and spec() are those of all ranges in their order.
/// Used by one thread at a time.
class Network {
 public:
  /// Takes these ranges of the model, from its begin to its end. Throws Error{bad_graph} for an
  /// empty or wrong range, and for ranges that overlap.
  Network(Model model, const std::vector<BlockRange>& ranges, DType dtype, Stream stream);
  Network(Model model, std::size_t first, std::size_t last, DType dtype, Stream stream)
      : Network(std::move(model), std::vector<BlockRange>{{first, last}}, dtype, stream) {}

  const StateSpec& spec() const { return spec_; }
  const std::vector<std::unique_ptr<nn::Module>>& blocks() const { return blocks_; }
  /// By their places in blocks().
  const std::vector<BlockRange>& ranges() const { return ranges_; }
  DType dtype() const { return dtype_; }

  /// From now on forward uses this state's weights. Throws Error{bad_shape} for the state of
  /// another network.
  void use(StatePtr state);
  const StatePtr& state() const { return views_->state; }
  /// Called before use(): the weights and buffers that passes read stay in one place, into which
  /// use() copies those of each state, for captured work that knows the place (DeviceGraph). No
  /// training pass may be in flight then: it would see other weights.
  void keep_in_place() { keeps_in_place_ = true; }
  /// Freezes the parameters for which it is true, beside those that the model freezes: no update
  /// changes them. The gradients of a layer are computed if any of its parameters is trained, and
  /// are zero otherwise.
  void freeze(const Freezes& freezes);
  /// From now on an x of u8 for the first range, images row-major, stands for numbers: byte b of
  /// channel c for values[c, b] (KernelTable::look_up). `values` is in the CPU's memory and of the
  /// network's type.
  void take_pixels(const Tensor& values);

  /// Training pass; the result holds what backward needs, and the output in ForwardPass::result().
  /// x of another floating type is converted, and pixels are looked up. `wants_input_gradient` is
  /// false for the first stage.
  std::unique_ptr<ForwardPass> forward(const Tensor& x, const RandomKey& random,
                                       bool wants_input_gradient, std::size_t range = 0);
  /// Input and weight halves; returns the gradient of x (undefined if not wanted) in the type of x.
  /// Fills pass.gradients.
  Tensor backward(ForwardPass& pass, const Tensor& grad);
  /// The same in parts, the last blocks first. `backward_to` runs backward through the remaining
  /// blocks from `block` on. It returns their gradient in new flat memory, in the order of these
  /// blocks in StateVersion::weights. After block 0, `end_backward` returns the gradient of x.
  void begin_backward(ForwardPass& pass, const Tensor& grad);
  Tensor backward_to(ForwardPass& pass, std::size_t block);
  Tensor end_backward(ForwardPass& pass);
  /// The halves apart: the gradient of x first, pass.gradients later.
  Tensor backward_inputs(ForwardPass& pass, const Tensor& grad);
  void backward_weights(ForwardPass& pass);
  /// Forward only, with running statistics and without dropout. Uses the moving average of the
  /// weights if the state has one (Optimizer::with_average).
  Tensor evaluate(const Tensor& x, std::size_t range = 0);

  /// The sum of the squares of a reduced gradient for each parameter: f64 [parameters], in the
  /// CPU's memory when the stream has come that far; 0 for those that the optimizer or the model
  /// freezes. The same bits for any division into parts.
  Tensor gradient_squares(const Optimizer& optimizer, const std::vector<Tensor>& gradients) const;
  /// The next version: the optimizer's step on the reduced gradient, and `statistics` (one flat
  /// tensor for each micro-batch, in global order) folded into the buffers. The gradient may come
  /// in parts, as backward_to makes them: the one of the last blocks first. Without any gradient,
  /// weights, the optimizer's state tensors and StateVersion::updates stay as they are. `lr` is the
  /// rate of the parameters of no group, and of groups without one. Does not change this network.
  StatePtr step(const Optimizer& optimizer, double lr, const std::vector<Tensor>& gradients,
                const std::vector<Tensor>& statistics) const;
  StatePtr step(const Optimizer& optimizer, double lr, const Tensor& gradient,
                const std::vector<Tensor>& statistics) const {
    return step(optimizer, lr, std::vector<Tensor>{gradient}, statistics);
  }

 private:
  Pass make_pass(bool training, const RandomKey& random) const;
  Tensor taken(const Tensor& x, Pass& pass) const;
  Tensor numbers_of(const Tensor& pixels) const;
  bool evaluates_average() const { return !views_->averages.empty(); }
  Tensor make_views(ForwardPass& pass, std::size_t first_block, std::size_t last_block) const;
  void drop_views(ForwardPass& pass, std::size_t first_block, std::size_t last_block) const;
  Tensor returned(const ForwardPass& pass, std::vector<Tensor> gradients) const;
  void fold(const std::vector<Tensor>& statistics, const Tensor& running) const;
  const Tensor& placed(const Tensor& from, Tensor& place) const;
  void check_gradients(const std::vector<Tensor>& gradients) const;
  void apply(const Optimizer& optimizer, const OptimizerStep& step,
             const std::vector<Tensor>& gradients, StateVersion& next) const;
  void average(double decay, StateVersion& next) const;

  /// Where the parameters of a block begin.
  struct BlockBegin {
    std::size_t parameter = 0;
    std::int64_t element = 0;
  };
  StateSpec spec_;
  std::vector<std::uint8_t> frozen_;  ///< by parameter, for Pass::frozen
  std::vector<BlockBegin> begins_;    ///< by block, and the end of all
  std::vector<std::unique_ptr<nn::Module>> blocks_;
  std::vector<BlockRange> ranges_;
  DType dtype_;
  Stream stream_;
  Tensor pixel_values_, pixel_values_on_cpu_;  ///< undefined: x has none
  Layout pixel_layout_ = Layout::row_major;
  bool keeps_in_place_ = false;
  Tensor weights_place_, average_place_, buffers_place_;  ///< flat; undefined until they are used
  std::shared_ptr<const StateViews> views_ = std::make_shared<StateViews>();
};

}  // namespace troupe
