#include "ops/cpu/checks.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/activation.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

template <ActivationFunction function>
void activate_as(const float* x, float* y, std::int64_t count) {
  for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(activated<function>(d, hn::LoadU(d, x + i)), d, y + i);
  });
}

template <ActivationFunction function>
void activate_backward_as(const float* saved, const float* grad, float* dx, std::int64_t count) {
  for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto slope = slope_of<function>(d, hn::LoadU(d, saved + i));
    hn::StoreU(hn::Mul(hn::LoadU(d, grad + i), slope), d, dx + i);
  });
}

void activate_range(ActivationFunction function, const float* x, float* y, std::int64_t count) {
  switch (function) {
    case ActivationFunction::sigmoid:
      return activate_as<ActivationFunction::sigmoid>(x, y, count);
    case ActivationFunction::tanh:
      return activate_as<ActivationFunction::tanh>(x, y, count);
    case ActivationFunction::silu:
      return activate_as<ActivationFunction::silu>(x, y, count);
    case ActivationFunction::gelu:
      return activate_as<ActivationFunction::gelu>(x, y, count);
    case ActivationFunction::gelu_tanh:
      return activate_as<ActivationFunction::gelu_tanh>(x, y, count);
    case ActivationFunction::hardsigmoid:
      return activate_as<ActivationFunction::hardsigmoid>(x, y, count);
    case ActivationFunction::hardswish:
      return activate_as<ActivationFunction::hardswish>(x, y, count);
  }
}

void activate_backward_range(ActivationFunction function, const float* saved, const float* grad,
                             float* dx, std::int64_t count) {
  switch (function) {
    case ActivationFunction::sigmoid:
      return activate_backward_as<ActivationFunction::sigmoid>(saved, grad, dx, count);
    case ActivationFunction::tanh:
      return activate_backward_as<ActivationFunction::tanh>(saved, grad, dx, count);
    case ActivationFunction::silu:
      return activate_backward_as<ActivationFunction::silu>(saved, grad, dx, count);
    case ActivationFunction::gelu:
      return activate_backward_as<ActivationFunction::gelu>(saved, grad, dx, count);
    case ActivationFunction::gelu_tanh:
      return activate_backward_as<ActivationFunction::gelu_tanh>(saved, grad, dx, count);
    case ActivationFunction::hardsigmoid:
      return activate_backward_as<ActivationFunction::hardsigmoid>(saved, grad, dx, count);
    case ActivationFunction::hardswish:
      return activate_backward_as<ActivationFunction::hardswish>(saved, grad, dx, count);
  }
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(activate_range);
HWY_EXPORT(activate_backward_range);

Tensor activate(const Stream& stream, ActivationFunction function, const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), stream.device, x.layout());
  const float* from = x.data<float>();
  auto* to = y.data<float>();
  parallel(stream, x.element_count(), elements_per_thread,
           [&](std::int64_t begin, std::int64_t end) {
             HWY_DYNAMIC_DISPATCH(activate_range)(function, from + begin, to + begin, end - begin);
           });
  return y;
}

Tensor activate_backward(const Stream& stream, ActivationFunction function, const Tensor& saved,
                         const Tensor& grad) {
  check_alike("activate_backward", saved, grad);
  Tensor dx = Tensor::empty(saved.shape(), saved.dtype(), stream.device, saved.layout());
  const float *kept = saved.data<float>(), *from = grad.data<float>();
  auto* to = dx.data<float>();
  parallel(stream, saved.element_count(), elements_per_thread,
           [&](std::int64_t begin, std::int64_t end) {
             HWY_DYNAMIC_DISPATCH(activate_backward_range)
             (function, kept + begin, from + begin, to + begin, end - begin);
           });
  return dx;
}

}  // namespace troupe::cpu
#endif
