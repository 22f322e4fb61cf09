#include "actors/stage_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "actors/captured_program.h"
#include "runtime/device/device_stream.h"
#include "runtime/error.h"

namespace troupe {
namespace {

/// The first block of each bucket, by range.
std::vector<std::vector<std::size_t>> bucket_begins(const std::vector<BlockRange>& ranges,
                                                    const std::vector<std::size_t>& buckets) {
  std::vector<std::vector<std::size_t>> begins(ranges.size());
  auto bucket = buckets.begin();
  const auto take = [&](std::size_t left) {
    if (buckets.empty()) return left;
    if (bucket == buckets.end() || *bucket == 0 || *bucket > left)
      throw Error(ErrorCode::bad_options,
                  fmt::format("{} buckets do not hold the {} blocks of a stage", buckets.size(),
                              ranges.back().last),
                  "make them by gradient_buckets for each range");
    return *bucket++;
  };
  for (std::size_t r = ranges.size(); r-- > 0;)
    for (std::size_t end = ranges[r].last; end > ranges[r].first;)
      begins[r].push_back(end -= take(end - ranges[r].first));
  if (bucket != buckets.end()) take(0);
  return begins;
}

class NetworkProgram final : public StageProgram {
 public:
  NetworkProgram(const NetworkProgramOptions& options, const Stream& stream, StatePtr state)
      : network_(make_network(options, stream)),
        bucket_begins_(bucket_begins(network_.ranges(), options.buckets)),
        spec_(std::make_shared<const StateSpec>(network_.spec())) {
    if (options.graph_shapes > 0) network_.keep_in_place();
    if (!state) state = initial_state(*spec_, options.dtype, options.seed);
    network_.use(on_device(stream, state));
    if (options.pixels.defined()) network_.take_pixels(options.pixels);
  }

  void use(StatePtr state) override { network_.use(std::move(state)); }
  const StatePtr& state() const override { return network_.state(); }
  std::shared_ptr<const StateSpec> spec() const override { return spec_; }

  std::size_t ranges() const override { return network_.ranges().size(); }
  Forward forward(const Tensor& x, const RandomKey& random, bool wants_input_gradient,
                  std::size_t range) override {
    auto saved = std::make_unique<SavedPass>();
    saved->pass = network_.forward(x, random, wants_input_gradient, range);
    saved->range = range;
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
    const std::vector<std::size_t>& begins = bucket_begins_.at(ours.range);
    made.gradient = network_.backward_to(pass, begins.at(bucket));
    if (bucket == 0) made.statistics = std::move(pass.statistics);
    if (bucket + 1 == begins.size() && !ours.input_half_done)
      made.input_gradient = network_.end_backward(pass);
    return made;
  }
  Tensor evaluate(const Tensor& x, std::size_t range) override {
    return network_.evaluate(x, range);
  }
  Tensor gradient_squares(const Optimizer& optimizer,
                          const std::vector<Tensor>& gradients) const override {
    return network_.gradient_squares(optimizer, gradients);
  }
  StatePtr step(const Optimizer& optimizer, double lr, const std::vector<Tensor>& gradients,
                const std::vector<Tensor>& statistics) const override {
    return network_.step(optimizer, lr, gradients, statistics);
  }

 private:
  struct SavedPass final : Saved {
    std::unique_ptr<ForwardPass> pass;
    std::size_t range = 0;
    bool input_half_done = false;
  };
  static Network make_network(const NetworkProgramOptions& options, const Stream& stream) {
    Model model = options.model.make(options.samples, options.dtype);
    std::vector<BlockRange> ranges = options.blocks;
    if (ranges.empty()) ranges.emplace_back();
    for (BlockRange& range : ranges) range = range.within(model.blocks.size());
    Network network(std::move(model), ranges, options.dtype, stream);
    if (options.freezes) network.freeze(options.freezes);
    return network;
  }

  Network network_;
  std::vector<std::vector<std::size_t>> bucket_begins_;  ///< the first block of each, by range
  std::shared_ptr<const StateSpec> spec_;
};

}  // namespace

ProgramFactory network_program(NetworkProgramOptions options) {
  // Between several ranges are blocks of stages that run in turns: no check of neighbours covers
  // that.
  std::optional<ModelPart> part;
  if (options.blocks.size() < 2) {
    const std::size_t blocks = options.model.make(options.samples, options.dtype).blocks.size();
    const BlockRange range = options.blocks.empty() ? BlockRange{} : options.blocks.front();
    part = ModelPart{range.within(blocks), blocks};
    if (part->blocks.first >= part->blocks.last || part->blocks.last > blocks)
      throw Error(ErrorCode::bad_options,
                  fmt::format("a stage has the blocks [{}, {}) of a model with {} blocks",
                              part->blocks.first, part->blocks.last, blocks),
                  fmt::format("give a part of [0, {})", blocks));
  }
  const std::size_t buckets =
      std::max({options.buckets.size(), options.blocks.size(), std::size_t{1}});
  const Stream stream = options.stream;
  ProgramFactory factory([options = std::move(options), buckets](
                             const Stream& on, StatePtr state) -> std::unique_ptr<StageProgram> {
    const DeviceStream* opened = device_stream(on);
    NetworkProgramOptions own = options;
    if (!opened || !opened->captures()) own.graph_shapes = 0;
    auto program = std::make_unique<NetworkProgram>(own, on, std::move(state));
    if (own.graph_shapes == 0) return program;
    return std::make_unique<CapturedProgram>(std::move(program), on, buckets, own.graph_shapes);
  });
  factory.stream = stream;
  factory.buckets = static_cast<std::uint32_t>(buckets);
  factory.part = part;
  return factory;
}

}  // namespace troupe
