#include "ops/cpu/sgd.h"

#include "ops/cpu/checks.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/targets.h"
#include "ops/optim/sgd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/sgd.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

template <bool with_momentum>
void step_as(const Sgd& options, double lr, const SgdRange& r, std::int64_t begin,
             std::int64_t end) {
  const auto decay_value = static_cast<float>(options.weight_decay);
  const auto keep_value = static_cast<float>(options.momentum);
  const auto rate_value = static_cast<float>(-lr);
  const bool first = r.momentum == nullptr, nesterov = options.nesterov;
  const SgdRange range = r;
  for_lanes(end - begin, [=](auto d, std::int64_t offset) HWY_ATTR {
    const std::int64_t i = begin + offset;
    const auto weight = hn::LoadU(d, range.weights + i);
    auto direction = hn::MulAdd(weight, hn::Set(d, decay_value), hn::LoadU(d, range.gradient + i));
    if constexpr (with_momentum) {
      const auto keep = hn::Set(d, keep_value);
      auto buffer = direction;
      if (!first) buffer = hn::MulAdd(hn::LoadU(d, range.momentum + i), keep, direction);
      hn::StoreU(buffer, d, range.new_momentum + i);
      direction = nesterov ? hn::MulAdd(buffer, keep, direction) : buffer;
    }
    hn::StoreU(hn::MulAdd(direction, hn::Set(d, rate_value), weight), d, range.new_weights + i);
  });
}

void step(const Sgd& options, double lr, const SgdRange& range, std::int64_t begin,
          std::int64_t end) {
  if (options.momentum != 0.0)
    step_as<true>(options, lr, range, begin, end);
  else
    step_as<false>(options, lr, range, begin, end);
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(step);

// One pass over the arrays, with the update rule of PyTorch's SGD.
void sgd(const Stream& stream, const Sgd& options, double lr, const Tensor& weights,
         const Tensor& gradient, const Tensor& momentum, Tensor& new_weights,
         Tensor& new_momentum) {
  const std::int64_t count = weights.element_count();
  check_vector("sgd", "the weights", weights, count);
  check_vector("sgd", "the gradient", gradient, count);
  check_vector("sgd", "the new weights", new_weights, count);
  SgdRange range{weights.data<float>(), gradient.data<float>(), nullptr, new_weights.data<float>(),
                 nullptr};
  if (options.momentum != 0.0) {
    check_vector("sgd", "the new momentum", new_momentum, count);
    range.new_momentum = new_momentum.data<float>();
    if (momentum.defined()) {
      check_vector("sgd", "the momentum", momentum, count);
      range.momentum = momentum.data<float>();
    }
  }
  parallel(stream, count, elements_per_thread, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(step)(options, lr, range, begin, end);
  });
}

}  // namespace troupe::cpu
#endif
