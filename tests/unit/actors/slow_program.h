#pragma once
#include <chrono>
#include <memory>
#include <thread>

#include "program_around.h"

namespace troupe::testing {

/// A stage's arithmetic with pauses in front of its forward and each part of its backward; an input
/// half that runs apart is such a part.
class SlowProgram final : public ProgramAround {
 public:
  struct Pauses {
    std::chrono::microseconds forward{0}, backward{0};
  };
  SlowProgram(std::unique_ptr<StageProgram> inner, Pauses pauses)
      : ProgramAround(std::move(inner)), pauses_(pauses) {}

  Forward forward(const Tensor& x, const RandomKey& random, bool wants_input_gradient,
                  std::size_t range) override {
    std::this_thread::sleep_for(pauses_.forward);
    return ProgramAround::forward(x, random, wants_input_gradient, range);
  }
  Tensor input_gradient(Saved& saved, const Tensor& grad) override {
    std::this_thread::sleep_for(pauses_.backward);
    return ProgramAround::input_gradient(saved, grad);
  }
  Backward backward(Saved& saved, const Tensor& grad, std::size_t bucket) override {
    std::this_thread::sleep_for(pauses_.backward);
    return ProgramAround::backward(saved, grad, bucket);
  }

 private:
  Pauses pauses_;
};

}  // namespace troupe::testing
