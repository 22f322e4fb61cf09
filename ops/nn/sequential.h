#pragma once
#include <vector>

#include "ops/nn/module.h"

namespace troupe::nn {

/// Modules one after another, each with the name that the caller gives: PyTorch's Sequential names
/// them "0", "1", …; a fused layer skips the numbers of the layers that it includes.
class Sequential : public Module {
 public:
  using Module::Module;

  template <class M, class... Args>
  Sequential& add(std::string_view name, Args&&... args) {
    parts_.push_back(&child<M>(name, std::forward<Args>(args)...));
    return *this;
  }
  Value forward(Tape& tape, Value x) override {
    for (Module* part : parts_) x = part->forward(tape, x);
    return x;
  }
  bool begins_with_convolution() const override {
    return !parts_.empty() && parts_.front()->begins_with_convolution();
  }

 private:
  std::vector<Module*> parts_;  // owned as children
};

}  // namespace troupe::nn
