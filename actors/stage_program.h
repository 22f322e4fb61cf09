#pragma once
#include <functional>
#include <memory>
#include <string>

#include "ops/models/model.h"
#include "ops/nn/state.h"

namespace troupe {

/// The arithmetic of a stage, as the Stage actor calls it. `network_program` makes the real one; a
/// user may bring another (the benchmark of schedules brings one that only takes time).
class StageProgram {
 public:
  /// What a micro-batch leaves behind between its forward and its backward.
  struct Saved {
    virtual ~Saved() = default;
  };
  struct Forward {
    Tensor output;
    std::unique_ptr<Saved> saved;
  };
  struct Backward {
    Tensor input_gradient;  ///< undefined where it was not wanted
    Tensor gradient;        ///< flat
    Tensor statistics;      ///< flat
  };

  virtual ~StageProgram() = default;
  virtual void use(StatePtr state) = 0;
  virtual const StatePtr& state() const = 0;
  virtual std::shared_ptr<const StateSpec> spec() const = 0;
  virtual Forward forward(const Tensor& x, const RandomKey& random, bool wants_input_gradient) = 0;
  virtual Backward backward(Saved& saved, const Tensor& grad) = 0;
  virtual Tensor evaluate(const Tensor& x) = 0;
  /// The state after one optimizer step; the present one stays as it is.
  virtual StatePtr step(const SgdOptions& sgd, const Tensor& gradient,
                        const std::vector<Tensor>& statistics) const = 0;
};

/// Makes a program anew: for an actor's first life and for each later one.
using ProgramFactory = std::function<std::unique_ptr<StageProgram>()>;

/// Blocks [first, last) of a model as a program. Without `initial`, parameters are drawn from the
/// seed.
struct NetworkProgramOptions {
  ModelOptions model;
  std::size_t first = 0;
  std::size_t last = SIZE_MAX;  ///< beyond the end: to the end
  DType dtype = DType::f32;
  Stream stream;
  std::uint64_t seed = 1;
  StatePtr initial;
};
ProgramFactory network_program(NetworkProgramOptions options);

}  // namespace troupe
