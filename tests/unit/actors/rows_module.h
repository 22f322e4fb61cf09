#pragma once
#include "ops/nn/module.h"
#include "ops/primitives/embedding.h"

namespace troupe::testing {

/// Takes each number of a sample for the row of a weight.
class Rows final : public nn::Module {
 public:
  using Module::Module;
  void declare(StateSpec& spec) override {
    weight_ = spec.add_parameter("weight", {10, 3}, {Initializer::Kind::constant, 1.0});
  }
  Value forward(Tape& tape, Value x) override {
    return tape.record(primitives::Embedding{.weight = weight_}, x);
  }

 private:
  ParameterIndex weight_;
};

}  // namespace troupe::testing
