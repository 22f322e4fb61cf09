#include "actors/stage_program.h"

#include <fmt/format.h>

#include <numeric>

#include "ops/nn/network.h"
#include "runtime/error.h"

namespace troupe {
namespace {

class NetworkProgram final : public StageProgram {
 public:
  explicit NetworkProgram(const NetworkProgramOptions& options)
      : network_(make_network(options)), spec_(std::make_shared<const StateSpec>(network_.spec())) {
    network_.use(on_device(
        options.stream,
        options.initial ? options.initial : initial_state(*spec_, options.dtype, options.seed)));
    const std::size_t blocks = network_.blocks().size();
    std::vector<std::size_t> buckets = options.buckets;
    if (buckets.empty()) buckets = {blocks};
    if (std::accumulate(buckets.begin(), buckets.end(), std::size_t{0}) != blocks)
      throw Error(
          ErrorCode::bad_options,
          fmt::format("{} buckets do not hold the {} blocks of a stage", buckets.size(), blocks),
          "make them by gradient_buckets");
    std::size_t begin = blocks;
    for (const std::size_t size : buckets) bucket_begins_.push_back(begin -= size);
  }

  void use(StatePtr state) override { network_.use(std::move(state)); }
  const StatePtr& state() const override { return network_.state(); }
  std::shared_ptr<const StateSpec> spec() const override { return spec_; }

  Forward forward(const Tensor& x, const RandomKey& random, bool wants_input_gradient) override {
    auto saved = std::make_unique<SavedPass>();
    saved->pass = network_.forward(x, random, wants_input_gradient);
    Tensor output = saved->pass->take_result();
    return {std::move(output), std::move(saved)};
  }
  Tensor input_gradient(Saved& saved, const Tensor& grad) override {
    auto& ours = static_cast<SavedPass&>(saved);
    ours.input_half_done = true;
    return network_.backward_inputs(*ours.pass, grad);
  }
  Backward backward(Saved& saved, const Tensor& grad, std::size_t bucket) override {
    auto& ours = static_cast<SavedPass&>(saved);
    ForwardPass& pass = *ours.pass;
    if (bucket == 0 && !ours.input_half_done) network_.begin_backward(pass, grad);
    Backward made;
    made.gradient = network_.backward_to(pass, bucket_begins_.at(bucket));
    if (bucket == 0) made.statistics = std::move(pass.statistics);
    if (bucket + 1 == bucket_begins_.size() && !ours.input_half_done)
      made.input_gradient = network_.end_backward(pass);
    return made;
  }
  Tensor evaluate(const Tensor& x) override { return network_.evaluate(x); }
  StatePtr step(const Optimizer& optimizer, double lr, const std::vector<Tensor>& gradients,
                const std::vector<Tensor>& statistics) const override {
    return network_.step(optimizer, lr, gradients, statistics);
  }

 private:
  struct SavedPass final : Saved {
    std::unique_ptr<ForwardPass> pass;
    bool input_half_done = false;
  };
  static Network make_network(const NetworkProgramOptions& options) {
    Model model = options.model.make(options.samples, options.dtype);
    const auto [first, last] = options.blocks.front().within(model.blocks.size());
    return Network(std::move(model), first, last, options.dtype, options.stream);
  }

  Network network_;
  std::vector<std::size_t> bucket_begins_;  ///< the first block of each
  std::shared_ptr<const StateSpec> spec_;
};

}  // namespace

ProgramFactory network_program(NetworkProgramOptions options) {
  if (options.blocks.size() != 1)
    throw Error(ErrorCode::bad_options,
                fmt::format("a stage of {} block ranges", options.blocks.size()),
                "give each stage one range: no schedule runs several in turns");
  return [options = std::move(options)] { return std::make_unique<NetworkProgram>(options); };
}

}  // namespace troupe
