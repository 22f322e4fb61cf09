#include "ops/optim/sgd.h"

namespace troupe {
namespace {

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const SgdOptions& options) : options_(options) {}

  std::vector<std::string> state_names() const override {
    return options_.momentum == 0.0 ? std::vector<std::string>{}
                                    : std::vector<std::string>{"momentum"};
  }

  void update(const Stream& stream, const OptimizerStep& step,
              const OptimizerSlice& slice) const override {
    Tensor none;
    Tensor new_weights = slice.new_weights;
    kernels(stream.device, new_weights.dtype())
        .sgd(stream, options_, step.lr, slice.weights, slice.gradient,
             slice.state.empty() ? none : slice.state[0], new_weights,
             slice.new_state.empty() ? none : slice.new_state[0]);
  }

 private:
  SgdOptions options_;
};

}  // namespace

OptimizerPtr sgd(const SgdOptions& options) { return std::make_shared<const Sgd>(options); }

OptimizerEntry sgd_entry() {
  return {.name = "sgd",
          .hyper_parameters = {{.name = "momentum", .below = 1.0},
                               {.name = "weight_decay"},
                               {.name = "nesterov", .below = 2.0}},
          .make = [](const HyperParameters& values) {
            return sgd({.momentum = values.at("momentum"),
                        .weight_decay = values.at("weight_decay"),
                        .nesterov = values.at("nesterov") != 0.0});
          }};
}

}  // namespace troupe
