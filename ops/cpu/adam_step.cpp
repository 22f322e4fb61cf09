#include "ops/cpu/adam_step.h"

#include <cmath>

#include "ops/cpu/checks.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/scaled_gradient.h"
#include "ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/adam_step.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

/// torch.lerp, which computes from the nearer end.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V lerp(D d, V from, V to, float weight) {
  const V difference = hn::Sub(to, from);
  return weight < 0.5f ? hn::MulAdd(difference, hn::Set(d, weight), from)
                       : hn::NegMulAdd(difference, hn::Set(d, 1.0f - weight), to);
}

template <bool first>
void adam_as(const AdamStep& factors, const AdamArrays& all, const float* gradient,
             std::int64_t begin, std::int64_t end) {
  const bool decoupled = factors.decoupled_decay;
  const auto kept = static_cast<float>(decoupled ? 1.0 - factors.lr * factors.weight_decay : 1.0);
  const auto decay = static_cast<float>(decoupled ? 0.0 : factors.weight_decay);
  const auto weight1 = static_cast<float>(1.0 - factors.beta1);
  const auto weight2 = static_cast<float>(1.0 - factors.beta2);
  const auto keep2 = static_cast<float>(factors.beta2);
  const auto step_size = static_cast<float>(factors.lr / factors.correction1);
  const auto root = static_cast<float>(std::sqrt(factors.correction2));
  const auto epsilon = static_cast<float>(factors.epsilon);
  const AdamArrays a = all;
  for_lanes(end - begin, [=](auto d, std::int64_t offset) HWY_ATTR {
    const std::int64_t i = begin + offset;
    const auto w = hn::LoadU(d, a.weights + i);
    auto g = hn::LoadU(d, gradient + offset);
    if (decay != 0.0f) g = hn::MulAdd(w, hn::Set(d, decay), g);
    auto m = hn::Zero(d), v = hn::Zero(d);
    if constexpr (!first) m = hn::LoadU(d, a.exp_avg + i), v = hn::LoadU(d, a.exp_avg_sq + i);
    m = lerp(d, m, g, weight1);
    v = hn::MulAdd(hn::Mul(g, hn::Set(d, weight2)), g, hn::Mul(v, hn::Set(d, keep2)));
    hn::StoreU(m, d, a.new_exp_avg + i);
    hn::StoreU(v, d, a.new_exp_avg_sq + i);
    const auto spread = hn::Add(hn::Div(hn::Sqrt(v), hn::Set(d, root)), hn::Set(d, epsilon));
    const auto change = hn::Div(hn::Mul(m, hn::Set(d, step_size)), spread);
    hn::StoreU(hn::MulSub(w, hn::Set(d, kept), change), d, a.new_weights + i);
  });
}

void adam(const AdamStep& factors, const AdamArrays& arrays, const float* gradient,
          std::int64_t begin, std::int64_t end) {
  if (arrays.exp_avg == nullptr)
    adam_as<true>(factors, arrays, gradient, begin, end);
  else
    adam_as<false>(factors, arrays, gradient, begin, end);
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(adam);

namespace {

// One pass over the arrays.
void apply(const Stream& stream, const AdamUpdate& update) {
  const auto& [factors, weights, gradient, exp_avg, exp_avg_sq, new_weights, new_exp_avg,
               new_exp_avg_sq] = update;
  const std::int64_t count = weights.element_count();
  const auto check = [&](const char* what, const Tensor& tensor) {
    check_vector("adam_step", what, tensor, count);
  };
  check("the weights", weights);
  check("the gradient", gradient);
  check("the new weights", new_weights);
  check("the new exp_avg", new_exp_avg);
  check("the new exp_avg_sq", new_exp_avg_sq);
  AdamArrays arrays{weights.data<float>(),
                    nullptr,
                    nullptr,
                    new_weights.data<float>(),
                    new_exp_avg.data<float>(),
                    new_exp_avg_sq.data<float>()};
  if (exp_avg.defined()) {
    check("exp_avg", exp_avg);
    check("exp_avg_sq", exp_avg_sq);
    arrays.exp_avg = exp_avg.data<float>();
    arrays.exp_avg_sq = exp_avg_sq.data<float>();
  }
  parallel(stream, count, elements_per_thread, [&](std::int64_t begin, std::int64_t end) {
    for_scaled_parts(update.factors.scaling, update.gradient.data<float>(), begin, end,
                     [&](const float* scaled, std::int64_t first, std::int64_t last) {
                       HWY_DYNAMIC_DISPATCH(adam)(update.factors, arrays, scaled, first, last);
                     });
  });
}

}  // namespace

void adam_step(const Stream& stream, const std::vector<AdamUpdate>& updates) {
  for (const AdamUpdate& update : updates) apply(stream, update);
}

}  // namespace troupe::cpu
#endif
