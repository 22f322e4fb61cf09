// What an update of a stage takes from the host, on the emulator.

#include <gmock/gmock.h>

#include <vector>

#include "emulated.h"
#include "emulator/emulation.h"
#include "ops/models/models.h"
#include "ops/nn/network.h"
#include "ops/on_device.h"
#include "ops/optim/optimizers.h"

namespace troupe::testing {
namespace {

// The bias of ten classes is padded.
TEST(CudaOptimizerCalls, AreOneForAllBucketsAndGroups) {
  EmulatedStream stream;
  Model model =
      ModelSource(WideResNet{.widths = {4, 4, 8, 8}}).make({.shape = {1, 28, 28}, .classes = 10});
  const std::size_t blocks = model.blocks.size();
  Network network(std::move(model), 0, blocks, DType::f32, stream.get());
  const StateSpec& spec = network.spec();
  network.use(on_device(stream.get(), initial_state(spec, DType::f32, 1)));
  const Tensor whole = zeros(stream.get(), {spec.parameter_elements()}, DType::f32);
  const std::int64_t half = spec.parameters().back().offset;
  const std::vector<Tensor> buckets{whole.narrow(half, spec.parameter_elements() - half),
                                    whole.narrow(0, half)};
  const auto calls = [&](const Optimizer& optimizer, const std::vector<Tensor>& gradients) {
    const std::uint64_t before = cuda_on_cpu::given_by_thread();
    (void)network.step(optimizer, 0.1, gradients, std::vector<Tensor>{});
    return cuda_on_cpu::given_by_thread() - before;
  };
  for (const Optimizer& plain :
       {Optimizer(Sgd{.momentum = 0.9}), Optimizer(Adam{}), Optimizer(AdamW{})}) {
    SCOPED_TRACE(plain.name());
    const Optimizer groups = plain.with_groups(
        {{.parameters = {spec.parameters().back().name}, .optimizer = plain, .lr = 0.2}});
    EXPECT_EQ(calls(plain, {whole}), 1u);
    EXPECT_EQ(calls(groups, buckets), 1u);
    EXPECT_EQ(calls(plain.with_clip_value(0.1), buckets), 1u);
    EXPECT_EQ(calls(plain.with_clip_norm(1).at({}, 0, 2, 1024), buckets), 1u);
  }
  const std::uint64_t before = cuda_on_cpu::given_by_thread();
  (void)network.gradient_squares(Sgd{}, buckets);
  EXPECT_EQ(cuda_on_cpu::given_by_thread() - before, 3u)
      << "of the norm: two launches, and a copy to the CPU";
}

}  // namespace
}  // namespace troupe::testing
