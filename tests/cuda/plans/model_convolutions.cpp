#include "model_convolutions.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/nn/network.h"
#include "ops/on_device.h"
#include "ops/planned_device.h"

namespace troupe::testing {

std::string text_of(const ConvolutionWork& work) {
  constexpr const char* passes[] = {"forward", "input gradient", "weight gradient"};
  const ConvolutionOptions& o = work.options;
  return fmt::format("{} -> {}, {}x{}{}{}, of {}x{}{} ({})", o.in_channels, o.out_channels,
                     o.kernel_h, o.kernel_w, o.stride_h > 1 ? fmt::format(" / {}", o.stride_h) : "",
                     o.groups > 1 ? fmt::format(", {} groups", o.groups) : "", work.x[2], work.x[3],
                     o.bias ? ", bias" : "", passes[static_cast<int>(work.pass)]);
}

std::vector<ConvolutionWork> convolutions_of(const ModelSource& source, const SampleSpec& samples,
                                             std::int64_t batch) {
  std::vector<ConvolutionWork> found;
  const auto note = [&](const ConvolutionWork& work) {
    if (std::ranges::none_of(found,
                             [&](const auto& known) { return text_of(known) == text_of(work); }))
      found.push_back(work);
    return std::size_t{0};
  };
  const Stream stream{.device = planned_device({.title = "a GPU",
                                                .workspace_bytes = note,
                                                .samples_factor = static_cast<double>(batch)})};
  Tensor x = Tensor::zeros({1, samples.shape[0], samples.shape[1], samples.shape[2]});
  const std::size_t blocks = source.make(samples).blocks.size();
  for (std::size_t b = 0; b < blocks; ++b) {
    Network block(source.make(samples), b, b + 1, DType::f32, stream);
    block.use(on_device(stream, initial_state(block.spec(), DType::f32, 0)));
    const auto pass = block.forward(x, {}, b > 0);
    x = pass->result();
    block.backward(*pass, zeros(stream, x.shape(), x.dtype(), x.layout()));
  }
  return found;
}

}  // namespace troupe::testing
