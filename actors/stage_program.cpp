#include "actors/stage_program.h"

#include <algorithm>

#include "ops/nn/network.h"

namespace troupe {
namespace {

class NetworkProgram final : public StageProgram {
 public:
  explicit NetworkProgram(const NetworkProgramOptions& options)
      : network_(make_network(options)), spec_(std::make_shared<const StateSpec>(network_.spec())) {
    network_.use(options.initial ? options.initial
                                 : initial_state(*spec_, options.dtype, options.seed));
  }

  void use(StatePtr state) override { network_.use(std::move(state)); }
  const StatePtr& state() const override { return network_.state(); }
  std::shared_ptr<const StateSpec> spec() const override { return spec_; }

  Forward forward(const Tensor& x, const RandomKey& random, bool wants_input_gradient) override {
    auto saved = std::make_unique<TripSaved>();
    saved->trip = network_.forward(x, random, wants_input_gradient);
    Tensor output = saved->trip->result();
    return {std::move(output), std::move(saved)};
  }
  Backward backward(Saved& saved, const Tensor& grad) override {
    Trip& trip = *static_cast<TripSaved&>(saved).trip;
    Tensor input_gradient = network_.backward(trip, grad);
    return {std::move(input_gradient), std::move(trip.gradients), std::move(trip.statistics)};
  }
  Tensor evaluate(const Tensor& x) override { return network_.evaluate(x); }
  StatePtr step(const SgdOptions& sgd, const Tensor& gradient,
                const std::vector<Tensor>& statistics) const override {
    return network_.step(sgd, gradient, statistics);
  }

 private:
  struct TripSaved final : Saved {
    std::unique_ptr<Trip> trip;
  };
  static Network make_network(const NetworkProgramOptions& options) {
    Model model = make_model(options.model);
    const std::size_t last = std::min(options.last, model.blocks.size());
    return Network(std::move(model), options.first, last, options.dtype, options.stream);
  }

  Network network_;
  std::shared_ptr<const StateSpec> spec_;
};

}  // namespace

ProgramFactory network_program(NetworkProgramOptions options) {
  return [options = std::move(options)] { return std::make_unique<NetworkProgram>(options); };
}

}  // namespace troupe
