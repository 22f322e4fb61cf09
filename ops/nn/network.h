#pragma once
#include <memory>
#include <vector>

#include "ops/models/model.h"
#include "ops/nn/state.h"
#include "ops/tape.h"

namespace troupe {

/// A micro-batch on its way through a Network: the tape that leads back, and what it writes.
struct Trip {
  Tape tape;
  Value output;
  Tensor gradients;   ///< flat, as StateVersion::weights; written by backward
  Tensor statistics;  ///< flat, as StateVersion::buffers; written by forward
};

/// Consecutive blocks of a model with the state that they need: the arithmetic of one stage,
/// without actors. Used by one thread at a time.
class Network {
 public:
  /// Takes blocks [first, last) of the model.
  Network(Model model, std::size_t first, std::size_t last, DType dtype, Stream stream);

  const StateSpec& spec() const { return spec_; }
  const std::vector<std::unique_ptr<nn::Module>>& blocks() const { return blocks_; }
  DType dtype() const { return dtype_; }

  /// From now on forward uses this state's weights.
  void use(StatePtr state);
  const StatePtr& state() const { return state_; }

  /// Training pass; the result holds what backward needs. `wants_input_gradient` is false for the
  /// first stage.
  std::unique_ptr<Trip> forward(const Tensor& x, const RandomKey& random,
                                bool wants_input_gradient);
  /// Input and weight halves; returns the gradient of x (undefined if not wanted). Fills
  /// trip.gradients.
  Tensor backward(Trip& trip, Tensor grad);
  /// Forward only, with running statistics and without dropout.
  Tensor evaluate(const Tensor& x);

  /// The next version: SGD on the reduced gradient, and `statistics` (one flat tensor for each
  /// micro-batch, in global order) folded into the buffers. Does not change this network.
  StatePtr step(const SgdOptions& sgd, const Tensor& gradient,
                const std::vector<Tensor>& statistics) const;

 private:
  StateSpec spec_;
  std::vector<std::unique_ptr<nn::Module>> blocks_;
  DType dtype_;
  Stream stream_;
  StatePtr state_;
  std::vector<Tensor> weights_, buffers_;  ///< views of state_
  std::uint64_t version_ = 0;
};

}  // namespace troupe
