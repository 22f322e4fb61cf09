#include "ops/cpu/momentum_step.h"

#include "ops/cpu/checks.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/scaled_gradient.h"
#include "ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/momentum_step.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

template <bool with_momentum>
void step_as(const MomentumStep& factors, const MomentumArrays& all, const float* gradient,
             std::int64_t begin, std::int64_t end) {
  const auto decay_value = static_cast<float>(factors.weight_decay);
  const auto keep_value = static_cast<float>(factors.momentum);
  const auto rate_value = static_cast<float>(-factors.lr);
  const bool first = all.momentum == nullptr, nesterov = factors.nesterov;
  const bool decays = decay_value != 0.0f;  // else 0 times an infinite weight
  const MomentumArrays arrays = all;
  for_lanes(end - begin, [=](auto d, std::int64_t offset) HWY_ATTR {
    const std::int64_t i = begin + offset;
    const auto weight = hn::LoadU(d, arrays.weights + i);
    auto direction = hn::LoadU(d, gradient + offset);
    if (decays) direction = hn::MulAdd(weight, hn::Set(d, decay_value), direction);
    if constexpr (with_momentum) {
      const auto keep = hn::Set(d, keep_value);
      auto buffer = direction;
      if (!first) buffer = hn::MulAdd(hn::LoadU(d, arrays.momentum + i), keep, direction);
      hn::StoreU(buffer, d, arrays.new_momentum + i);
      direction = nesterov ? hn::MulAdd(buffer, keep, direction) : buffer;
    }
    hn::StoreU(hn::MulAdd(direction, hn::Set(d, rate_value), weight), d, arrays.new_weights + i);
  });
}

void step(const MomentumStep& factors, const MomentumArrays& arrays, const float* gradient,
          std::int64_t begin, std::int64_t end) {
  if (factors.momentum != 0.0)
    step_as<true>(factors, arrays, gradient, begin, end);
  else
    step_as<false>(factors, arrays, gradient, begin, end);
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(step);

namespace {

// One pass over the arrays.
void apply(const Stream& stream, const MomentumUpdate& update) {
  const auto& [factors, weights, gradient, momentum, new_weights, new_momentum] = update;
  const std::int64_t count = weights.element_count();
  const auto check = [&](const char* what, const Tensor& tensor) {
    check_vector("momentum_step", what, tensor, count);
  };
  check("the weights", weights);
  check("the gradient", gradient);
  check("the new weights", new_weights);
  MomentumArrays arrays{weights.data<float>(), nullptr, new_weights.data<float>(), nullptr};
  if (factors.momentum != 0.0) {
    check("the new momentum", new_momentum);
    arrays.new_momentum = new_momentum.data<float>();
    if (momentum.defined()) {
      check("the momentum", momentum);
      arrays.momentum = momentum.data<float>();
    }
  }
  parallel(stream, count, elements_per_thread, [&](std::int64_t begin, std::int64_t end) {
    for_scaled_parts(update.factors.scaling, update.gradient.data<float>(), begin, end,
                     [&](const float* scaled, std::int64_t first, std::int64_t last) {
                       HWY_DYNAMIC_DISPATCH(step)(update.factors, arrays, scaled, first, last);
                     });
  });
}

}  // namespace

void momentum_step(const Stream& stream, const std::vector<MomentumUpdate>& updates) {
  for (const MomentumUpdate& update : updates) apply(stream, update);
}

}  // namespace troupe::cpu
#endif
