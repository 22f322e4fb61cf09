#include "model_convolutions.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "ops/backend.h"
#include "ops/nn/state.h"
#include "ops/tape.h"

namespace troupe::testing {
namespace {

std::vector<ConvolutionUse>& noted() {
  static std::vector<ConvolutionUse> uses;
  return uses;
}

/// Notes what it is asked for and returns zeros: a convolution of 224x224 images takes too long.
class NotingConvolution final : public LayerKernel {
 public:
  explicit NotingConvolution(const ConvolutionOptions& options) : o_(options) {}

  void use_weights(const Stream&, const Tensor&, const Tensor&, std::uint64_t) override {}
  Tensor forward(const Stream&, const Tensor& x) override {
    const Shape y{x.dim(0), o_.out_channels,
                  (x.dim(2) + 2 * o_.padding_h - reach_h(o_)) / o_.stride_h + 1,
                  (x.dim(3) + 2 * o_.padding_w - reach_w(o_)) / o_.stride_w + 1};
    noted().push_back({.options = o_, .x = x.shape(), .y = y});
    return Tensor::zeros(y, x.dtype());
  }
  Tensor input_gradient(const Stream&, const Tensor&, const Shape&, Layout) override { return {}; }
  void weight_gradient(const Stream&, const Tensor&, const Tensor&, Tensor&, Tensor&) override {}

 private:
  ConvolutionOptions o_;
};

/// The CPU's kernels but for convolutions.
const KernelTable& noting_kernels() {
  static const KernelTable table = [] {
    KernelTable made = kernels(Device::cpu(), DType::f32);
    made.convolution = [](const ConvolutionOptions& o) -> std::unique_ptr<LayerKernel> {
      return std::make_unique<NotingConvolution>(o);
    };
    return made;
  }();
  return table;
}

const Backend& noting_backend() {
  static const Backend all = [] {
    Backend made = backend(Device::cpu());
    made.name = "noting";
    made.kernels = [](DType) { return &noting_kernels(); };
    return made;
  }();
  return all;
}

bool same(const ConvolutionUse& a, const ConvolutionUse& b) {
  return a.x == b.x && text_of(a) == text_of(b);
}

}  // namespace

std::string text_of(const ConvolutionUse& use) {
  const ConvolutionOptions& o = use.options;
  return fmt::format("{} -> {}, {}x{}{}{}, of {}x{}{}", o.in_channels, o.out_channels, o.kernel_h,
                     o.kernel_w, o.stride_h > 1 ? fmt::format(" / {}", o.stride_h) : "",
                     o.groups > 1 ? fmt::format(", {} groups", o.groups) : "", use.x[2], use.x[3],
                     o.bias ? ", bias" : "");
}

std::vector<ConvolutionUse> convolutions_of(const ModelSource& source, const SampleSpec& samples,
                                            std::int64_t batch) {
  noted().clear();
  const Model model = source.make(samples);
  StateSpec spec;
  for (const auto& block : model.blocks) block->declare(spec);
  const auto weights = spec.parameter_views(Tensor::zeros({spec.parameter_elements()}));
  const auto buffers = spec.buffer_views(Tensor::zeros({spec.buffer_elements()}));
  Pass pass;
  pass.stream.device = {&noting_backend(), 0};
  pass.training = false;
  pass.weights = weights;
  pass.buffers = buffers;
  Tensor x = Tensor::zeros({1, samples.shape[0], samples.shape[1], samples.shape[2]});
  for (const auto& block : model.blocks) {
    Tape tape(pass);
    const Value value = tape.input(std::move(x), false);
    x = tape.tensor(block->forward(tape, value));
  }
  std::vector<ConvolutionUse> uses;
  for (ConvolutionUse use : noted()) {
    use.x = {batch, use.x[1], use.x[2], use.x[3]};
    use.y = {batch, use.y[1], use.y[2], use.y[3]};
    if (std::none_of(uses.begin(), uses.end(), [&](const auto& u) { return same(u, use); }))
      uses.push_back(use);
  }
  return uses;
}

}  // namespace troupe::testing
