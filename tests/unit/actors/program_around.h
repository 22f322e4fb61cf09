#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "actors/stage_program.h"

namespace troupe::testing {

/// Another program, whose functions a derived class may change.
class ProgramAround : public StageProgram {
 public:
  explicit ProgramAround(std::unique_ptr<StageProgram> inner) : inner_(std::move(inner)) {}

  void use(StatePtr state) override { inner_->use(std::move(state)); }
  const StatePtr& state() const override { return inner_->state(); }
  std::shared_ptr<const StateSpec> spec() const override { return inner_->spec(); }
  Forward forward(const Tensor& x, const RandomKey& random, bool wants_input_gradient,
                  std::size_t range) override {
    return inner_->forward(x, random, wants_input_gradient, range);
  }
  Tensor input_gradient(Saved& saved, const Tensor& grad) override {
    return inner_->input_gradient(saved, grad);
  }
  Backward backward(Saved& saved, const Tensor& grad, std::size_t bucket) override {
    return inner_->backward(saved, grad, bucket);
  }
  Tensor evaluate(const Tensor& x, std::size_t range) override {
    return inner_->evaluate(x, range);
  }
  Tensor gradient_squares(const Optimizer& optimizer,
                          const std::vector<Tensor>& gradients) const override {
    return inner_->gradient_squares(optimizer, gradients);
  }
  StatePtr step(const Optimizer& optimizer, double lr, const std::vector<Tensor>& gradients,
                const std::vector<Tensor>& statistics) const override {
    return inner_->step(optimizer, lr, gradients, statistics);
  }

 private:
  std::unique_ptr<StageProgram> inner_;
};

}  // namespace troupe::testing
