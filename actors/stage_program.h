#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/models/model.h"
#include "ops/nn/state.h"
#include "ops/optim/optimizer.h"

namespace troupe {

/// The arithmetic of a stage, called by the Stage actor. `network_program` makes the one of a
/// model; a user may write another.
class StageProgram {
 public:
  /// What a micro-batch keeps between its forward and its backward.
  struct Saved {
    virtual ~Saved() = default;
  };
  struct Forward {
    Tensor output;
    std::unique_ptr<Saved> saved;
  };
  /// The results of a backward through one bucket. A bucket is a run of consecutive blocks; bucket
  /// 0 holds the last ones.
  struct Backward {
    Tensor input_gradient;  ///< of the last bucket; undefined where it was not wanted
    Tensor gradient;        ///< of the bucket's blocks, flat
    Tensor statistics;      ///< of all blocks, flat; with bucket 0
  };

  virtual ~StageProgram() = default;
  virtual void use(StatePtr state) = 0;
  virtual const StatePtr& state() const = 0;
  virtual std::shared_ptr<const StateSpec> spec() const = 0;
  virtual Forward forward(const Tensor& x, const RandomKey& random, bool wants_input_gradient) = 0;
  /// Runs the input half alone, before bucket 0 of the same micro-batch. `backward` then runs only
  /// the weight half.
  virtual Tensor input_gradient(Saved& saved, const Tensor& grad) = 0;
  /// Called for bucket 0, 1, … of a micro-batch in this order, each time with the same gradient of
  /// its output; other calls may come between them. For a program with one bucket, it is called
  /// only for bucket 0.
  virtual Backward backward(Saved& saved, const Tensor& grad, std::size_t bucket) = 0;
  virtual Tensor evaluate(const Tensor& x) = 0;
  /// The state after one optimizer step; the present one stays as it is. `gradients` are the
  /// buckets' sums; none of them for a step that changes nothing but its number.
  virtual StatePtr step(const Optimizer& optimizer, double lr, const std::vector<Tensor>& gradients,
                        const std::vector<Tensor>& statistics) const = 0;
};

/// Makes a program: one for each incarnation of an actor.
using ProgramFactory = std::function<std::unique_ptr<StageProgram>()>;

/// Consecutive blocks of a model: [first, last).
struct BlockRange {
  std::size_t first = 0;
  std::size_t last = SIZE_MAX;  ///< beyond the end: to the end
  /// The same for a model of so many blocks, with an end within it.
  BlockRange within(std::size_t blocks) const { return {first, std::min(last, blocks)}; }
};

/// Blocks of a model as a program, which computes on the stream's device. Without `initial`,
/// parameters are drawn from the seed. Throws Error{bad_options} for more than one range of blocks,
/// and where the buckets do not add up to the blocks.
struct NetworkProgramOptions {
  ModelSource model;
  SampleSpec samples;  ///< of the data set
  std::vector<BlockRange> blocks{BlockRange{}};
  DType dtype = DType::f32;
  Stream stream;
  std::uint64_t seed = 1;
  StatePtr initial;
  /// Blocks of each gradient bucket, the one of the last blocks first; empty: one bucket.
  std::vector<std::size_t> buckets = {};
};
ProgramFactory network_program(NetworkProgramOptions options);

}  // namespace troupe
