#pragma once
#include <memory>
#include <vector>

#include "actors/stage_program.h"
#include "runtime/tensor/allocator.h"

namespace troupe {

/// Runs the passes of a program as graphs of its device: the work of a pass is captured once and
/// then launched as a whole, which takes the host one call in place of one for each kernel.
///
/// A graph uses the same memory each time. So each micro-batch that is in flight has a lane: a copy
/// of its input, the memory of its passes, and their graphs. The first micro-batch of a lane runs
/// without graphs, which prepares kernels and shows how much memory they take; the second is
/// captured, and launched; those that follow are only launched. Results leave in copies. The bits
/// are those of the program for inputs and gradients that are aligned as new tensors are: a graph
/// reads copies, and for unaligned addresses kernels may round otherwise.
///
/// The `shapes` largest shapes of inputs seen so far have graphs in training, and the largest one
/// in evaluation. Others, such as those of a smaller last batch, run without graphs, as do indices
/// of i64, which are checked on the CPU in each pass. The program has one range, its weights stay
/// in place (Network::keep_in_place), and its stream captures.
class CapturedProgram final : public StageProgram {
 public:
  /// `shapes`: how many have graphs in training, at least 1.
  CapturedProgram(std::unique_ptr<StageProgram> program, const Stream& stream, std::size_t buckets,
                  std::size_t shapes);
  ~CapturedProgram() override;

  void use(StatePtr state) override;
  const StatePtr& state() const override { return program_->state(); }
  std::shared_ptr<const StateSpec> spec() const override { return program_->spec(); }
  std::size_t ranges() const override { return program_->ranges(); }
  Forward forward(const Tensor& x, const RandomKey& random, bool wants_input_gradient,
                  std::size_t range) override;
  Tensor input_gradient(Saved& saved, const Tensor& grad) override;
  Backward backward(Saved& saved, const Tensor& grad, std::size_t bucket) override;
  Tensor evaluate(const Tensor& x, std::size_t range) override;
  Tensor gradient_squares(const Optimizer& optimizer,
                          const std::vector<Tensor>& gradients) const override {
    return program_->gradient_squares(optimizer, gradients);
  }
  StatePtr step(const Optimizer& optimizer, double lr, const std::vector<Tensor>& gradients,
                const std::vector<Tensor>& statistics) const override {
    return program_->step(optimizer, lr, gradients, statistics);
  }

 private:
  struct Lane;
  struct Pass;
  using LanePtr = std::shared_ptr<Lane>;
  using Lanes = std::vector<LanePtr>;  ///< of one shape, at least one

  LanePtr lane_for(const Tensor& x, std::vector<Lanes>& shapes, std::size_t most);
  Tensor copied(const Tensor& tensor) const;
  void fill(Tensor& place, const Tensor& from) const;
  void give_gradient(Pass& pass, const Tensor& grad) const;

  std::unique_ptr<StageProgram> program_;
  Stream stream_;
  std::size_t buckets_, shapes_;
  std::vector<Lanes> training_, evaluation_;  ///< by size, the largest shape first
  bool has_average_ = false;                  ///< which evaluations read in place of the weights
};

}  // namespace troupe
