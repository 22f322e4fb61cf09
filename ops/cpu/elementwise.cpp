#include "ops/cpu/checks.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/elementwise.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

void relu_range(const float* x, float* y, std::int64_t count) {
  for_lanes(count, [&](auto d, std::int64_t i)
                       HWY_ATTR { hn::StoreU(relu(d, hn::LoadU(d, x + i)), d, y + i); });
}

void relu_backward_range(const float* y, const float* grad, float* dx, std::int64_t count) {
  for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(relu_gradient(d, hn::LoadU(d, y + i), hn::LoadU(d, grad + i)), d, dx + i);
  });
}

void clamp_range(const float* x, float low, float high, float* y, std::int64_t count) {
  for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, x + i), least = hn::Set(d, low), most = hn::Set(d, high);
    const auto raised = hn::IfThenElse(hn::Lt(value, least), least, value);
    hn::StoreU(hn::IfThenElse(hn::Gt(raised, most), most, raised), d, y + i);
  });
}

void clamp_backward_range(const float* x, const float* grad, float low, float high, float* dx,
                          std::int64_t count) {
  for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, x + i);
    const auto outside = hn::Or(hn::Le(value, hn::Set(d, low)), hn::Ge(value, hn::Set(d, high)));
    hn::StoreU(hn::IfThenZeroElse(outside, hn::LoadU(d, grad + i)), d, dx + i);
  });
}

void affine_range(const float* x, float factor, float offset, float* y, std::int64_t count) {
  for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), hn::Set(d, factor), hn::Set(d, offset)), d, y + i);
  });
}

void accumulate_range(float* sum, const float* added, std::int64_t count) {
  for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), hn::LoadU(d, added + i)), d, sum + i);
  });
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(relu_range);
HWY_EXPORT(relu_backward_range);
HWY_EXPORT(clamp_range);
HWY_EXPORT(clamp_backward_range);
HWY_EXPORT(affine_range);
HWY_EXPORT(accumulate_range);

Tensor relu(const Stream& stream, const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), stream.device, x.layout());
  const float* from = x.data<float>();
  auto* to = y.data<float>();
  parallel(stream, x.element_count(), elements_per_thread,
           [&](std::int64_t begin, std::int64_t end) {
             HWY_DYNAMIC_DISPATCH(relu_range)(from + begin, to + begin, end - begin);
           });
  return y;
}

Tensor relu_backward(const Stream& stream, const Tensor& y, const Tensor& grad) {
  check_alike("relu_backward", y, grad);
  Tensor dx = Tensor::empty(y.shape(), y.dtype(), stream.device, y.layout());
  const float *output = y.data<float>(), *from = grad.data<float>();
  auto* to = dx.data<float>();
  parallel(stream, y.element_count(), elements_per_thread,
           [&](std::int64_t begin, std::int64_t end) {
             HWY_DYNAMIC_DISPATCH(relu_backward_range)
             (output + begin, from + begin, to + begin, end - begin);
           });
  return dx;
}

Tensor clamp(const Stream& stream, const Tensor& x, double low, double high) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), stream.device, x.layout());
  const float* from = x.data<float>();
  auto* to = y.data<float>();
  parallel(
      stream, x.element_count(), elements_per_thread, [&](std::int64_t begin, std::int64_t end) {
        HWY_DYNAMIC_DISPATCH(clamp_range)
        (from + begin, static_cast<float>(low), static_cast<float>(high), to + begin, end - begin);
      });
  return y;
}

Tensor clamp_backward(const Stream& stream, const Tensor& x, const Tensor& grad, double low,
                      double high) {
  check_alike("clamp_backward", x, grad);
  Tensor dx = Tensor::empty(x.shape(), x.dtype(), stream.device, x.layout());
  const float *input = x.data<float>(), *from = grad.data<float>();
  auto* to = dx.data<float>();
  parallel(stream, x.element_count(), elements_per_thread,
           [&](std::int64_t begin, std::int64_t end) {
             HWY_DYNAMIC_DISPATCH(clamp_backward_range)
             (input + begin, from + begin, static_cast<float>(low), static_cast<float>(high),
              to + begin, end - begin);
           });
  return dx;
}

Tensor affine(const Stream& stream, const Tensor& x, double factor, double offset) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), stream.device, x.layout());
  const float* from = x.data<float>();
  auto* to = y.data<float>();
  parallel(stream, x.element_count(), elements_per_thread,
           [&](std::int64_t begin, std::int64_t end) {
             HWY_DYNAMIC_DISPATCH(affine_range)
             (from + begin, static_cast<float>(factor), static_cast<float>(offset), to + begin,
              end - begin);
           });
  return y;
}

void accumulate(const Stream& stream, Tensor& a, const Tensor& b) {
  check_alike("accumulate", a, b);
  auto* sum = a.data<float>();
  const float* added = b.data<float>();
  parallel(stream, a.element_count(), elements_per_thread,
           [&](std::int64_t begin, std::int64_t end) {
             HWY_DYNAMIC_DISPATCH(accumulate_range)(sum + begin, added + begin, end - begin);
           });
}

}  // namespace troupe::cpu
#endif
