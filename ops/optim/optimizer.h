#pragma once
// How weights change. An Optimizer computes; what it keeps between steps lies in StateVersion, so
// states, checkpoints and memory bounds work for any of them.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace troupe {

/// What all slices of one optimizer step share.
struct OptimizerStep {
  std::int64_t step = 0;  ///< steps before this one
  double lr = 0.0;        ///< learning rate of this step
};

/// A run of consecutive parameters. All tensors are flat and of equal length.
struct OptimizerSlice {
  Tensor weights;
  Tensor gradient;
  std::span<const Tensor> state;  ///< by state_names(); undefined before the first update
  Tensor new_weights;             ///< written
  std::span<Tensor> new_state;    ///< by state_names(); written
};

/// The update rule of one parameter group, with the group's hyper-parameters. Has no state of its
/// own: several threads may use it.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// The state tensors that it keeps, each with one element for each element of the weights. In
  /// checkpoints they are called "optimizer.<name>.<parameter>".
  virtual std::vector<std::string> state_names() const = 0;
  /// Writes the new weights and state of a slice. Element by element: any division of the
  /// parameters into slices gives the same bits.
  virtual void update(const Stream& stream, const OptimizerStep& step,
                      const OptimizerSlice& slice) const = 0;
};
using OptimizerPtr = std::shared_ptr<const Optimizer>;

}  // namespace troupe
