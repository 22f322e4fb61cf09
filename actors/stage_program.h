#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ops/models/model.h"
#include "ops/nn/network.h"
#include "ops/nn/state.h"
#include "ops/optim/optimizer.h"

namespace troupe {

/// The arithmetic of a stage, called by the Stage actor. `network_program` makes the program
/// of a model; a user may derive another.
class StageProgram {
 public:
  /// What a micro-batch keeps between its forward and its backward pass.
  struct Saved {
    virtual ~Saved() = default;
  };
  struct Forward {
    Tensor output;
    std::unique_ptr<Saved> saved;
  };
  /// The results of a backward pass through one bucket. A bucket is a sequence of consecutive
  /// blocks of a range; bucket 0 holds the last blocks of the range.
  struct Backward {
    Tensor input_gradient;  ///< set by the last bucket, if it was wanted
    Tensor gradient;        ///< of the bucket's blocks, flat
    Tensor statistics;      ///< flat, zero outside of the range; set by bucket 0
  };

  virtual ~StageProgram() = default;
  virtual void use(StatePtr state) = 0;
  virtual const StatePtr& state() const = 0;
  virtual std::shared_ptr<const StateSpec> spec() const = 0;
  /// Ranges of consecutive blocks, with other stages' blocks between them. The state, its names and
  /// the step are those of all ranges.
  virtual std::size_t ranges() const { return 1; }
  virtual Forward forward(const Tensor& x, const RandomKey& random, bool wants_input_gradient,
                          std::size_t range) = 0;
  /// Runs the input half alone, before bucket 0 of the same micro-batch. `backward` then runs only
  /// the weight half. In both, `grad` may be undefined if the input gradient is not wanted and no
  /// block of the range is trained.
  virtual Tensor input_gradient(Saved& saved, const Tensor& grad) = 0;
  /// Called for bucket 0, 1, … of a micro-batch in this order, each time with the same gradient of
  /// its output; other calls may come between them. For a program with one bucket, it is called
  /// only for bucket 0.
  virtual Backward backward(Saved& saved, const Tensor& grad, std::size_t bucket) = 0;
  virtual Tensor evaluate(const Tensor& x, std::size_t range) = 0;
  /// The sums of the squares of the gradient that `step` would take, as
  /// Network::gradient_squares.
  virtual Tensor gradient_squares(const Optimizer& optimizer,
                                  const std::vector<Tensor>& gradients) const = 0;
  /// The state after one optimizer step; the present one stays as it is. `gradients` are the
  /// buckets' sums, those of the last range first; empty for a step without a sum, which changes
  /// only the number of the step. `statistics` has one tensor for each micro-batch: the sum over
  /// its ranges.
  virtual StatePtr step(const Optimizer& optimizer, double lr, const std::vector<Tensor>& gradients,
                        const std::vector<Tensor>& statistics) const = 0;
};

/// A range of the blocks of a model.
struct ModelPart {
  BlockRange blocks;   ///< `last` is never SIZE_MAX
  std::size_t of = 0;  ///< blocks of the whole model
};

/// Makes a program: one for each incarnation of an actor.
struct ProgramFactory {
  /// The program begins with this state; null: with a first one of its own.
  using Make = std::function<std::unique_ptr<StageProgram>(const Stream& stream, StatePtr state)>;

  ProgramFactory() = default;
  template <class F>
  ProgramFactory(F make) requires std::is_invocable_v<const F&, const Stream&, StatePtr>
      : make(std::move(make)) {}
  /// For programs that compute on the CPU.
  template <class F>
  ProgramFactory(F make) requires std::is_invocable_v<const F&>
      : make([make = std::move(make)](const Stream&, StatePtr state) {
        auto program = make();
        if (state) program->use(std::move(state));
        return program;
      }) {}
  std::unique_ptr<StageProgram> operator()(const Stream& on, StatePtr state = nullptr) const {
    return make(on, std::move(state));
  }

  /// The program gives all of its work to the stream, which outlives it.
  Make make;
  Stream stream = {};                  ///< device, precision and threads of the actor's stream
  std::uint32_t buckets = 1;           ///< gradient buckets of a backward pass
  std::optional<ModelPart> part = {};  ///< if known, the stages of a graph must fit together
};

/// Blocks of a model as a program, which computes on a stream like this one. Its first state has
/// parameters drawn from the seed. Throws Error{bad_options} unless the buckets of each range add
/// up to its blocks.
struct NetworkProgramOptions {
  ModelSource model;
  SampleSpec samples;                   ///< of the data set
  std::vector<BlockRange> blocks = {};  ///< in the model's order; empty: all blocks
  DType dtype = DType::f32;
  Stream stream;
  std::uint64_t seed = 1;
  /// Blocks of each gradient bucket, the one of the last blocks first; empty: one bucket per range.
  std::vector<std::size_t> buckets = {};
  Tensor pixels = {};    ///< as Network::take_pixels, if x is of bytes (pixels_for)
  Freezes freezes = {};  ///< beside the model's frozen parameters
  /// Passes on inputs of so many shapes, the largest ones, run as graphs of the device, if its
  /// streams capture them (CapturedProgram). Not for stages with staleness.
  std::size_t graph_shapes = 0;
};
ProgramFactory network_program(NetworkProgramOptions options);

}  // namespace troupe
