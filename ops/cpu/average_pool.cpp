#include <algorithm>

#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/pool_windows.h"
#include "ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/average_pool.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/pool-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

/// What the sum of a window is multiplied by: one over `divisor`, or over its elements if that is
/// 0.
HWY_INLINE float share_of(const Window& window, std::int64_t divisor) {
  return 1.0f / static_cast<float>(divisor ? divisor : window.rows * window.columns);
}

void average_images(const PoolWindows& pool, std::int64_t divisor, const float* x, float* y,
                    std::int64_t begin, std::int64_t end) {
  const std::int64_t width = pool.width;
  for (std::int64_t image = begin; image < end; ++image) {
    const float* HWY_RESTRICT from = x + image * pool.input_plane();
    float* HWY_RESTRICT to = y + image * pool.output_plane();
    for_windows(pool, [=](const Window& window, std::int64_t output) HWY_ATTR {
      const float share = share_of(window, divisor);
      for_lanes(width, [=](auto d, std::int64_t c) HWY_ATTR {
        const float* at = from + window.first + c;
        auto sum = hn::Zero(d);
        for (std::int64_t h = 0; h < window.rows; ++h, at += window.row_step) {
          // Row by row, so that the error grows with the height plus the width only.
          auto row = hn::Zero(d);
          for (std::int64_t w = 0; w < window.columns; ++w)
            row = hn::Add(row, hn::LoadU(d, at + w * width));
          sum = hn::Add(sum, row);
        }
        hn::StoreU(hn::Mul(sum, hn::Set(d, share)), d, to + output + c);
      });
    });
  }
}

template <bool tiles>
void average_gradient_images(const PoolWindows& pool, std::int64_t divisor, const float* grad,
                             float* dx, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = pool.width;
  for (std::int64_t image = begin; image < end; ++image) {
    const float* HWY_RESTRICT gradient = grad + image * pool.output_plane();
    float* HWY_RESTRICT to = dx + image * pool.input_plane();
    if (!tiles) std::fill_n(to, pool.input_plane(), 0.0f);
    for_windows(pool, [=](const Window& window, std::int64_t output) HWY_ATTR {
      const float share = share_of(window, divisor);
      for_lanes(width, [=](auto d, std::int64_t c) HWY_ATTR {
        const auto g = hn::Mul(hn::LoadU(d, gradient + output + c), hn::Set(d, share));
        float* at = to + window.first + c;
        for (std::int64_t h = 0; h < window.rows; ++h, at += window.row_step)
          for (std::int64_t w = 0; w < window.columns; ++w) {
            float* element = at + w * width;
            hn::StoreU(tiles ? g : hn::Add(hn::LoadU(d, element), g), d, element);
          }
      });
    });
  }
}

void average_gradient(const PoolWindows& pool, std::int64_t divisor, const float* grad, float* dx,
                      std::int64_t begin, std::int64_t end) {
  if (pool.tiles())
    average_gradient_images<true>(pool, divisor, grad, dx, begin, end);
  else
    average_gradient_images<false>(pool, divisor, grad, dx, begin, end);
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(average_images);
HWY_EXPORT(average_gradient);

namespace {

Tensor forward(const Stream& stream, const Tensor& x, const PoolWindows& pool,
               std::int64_t divisor) {
  Tensor y = Tensor::empty(pool.output, DType::f32, stream.device, x.layout());
  const float* from = x.data<float>();
  auto* to = y.data<float>();
  parallel(stream, pool.images, pool.grain(), [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(average_images)(pool, divisor, from, to, begin, end);
  });
  return y;
}

Tensor backward(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                const PoolWindows& pool, std::int64_t divisor) {
  Tensor dx = Tensor::empty(x_shape, DType::f32, stream.device, grad.layout());
  const float* gradient = grad.data<float>();
  auto* to = dx.data<float>();
  parallel(stream, pool.images, pool.grain(), [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(average_gradient)(pool, divisor, gradient, to, begin, end);
  });
  return dx;
}

}  // namespace

Tensor average_pool(const Stream& stream, const Tensor& x, const PoolOptions& options) {
  const auto pool = PoolWindows::sliding(x.shape(), x.layout(), options, "average_pool");
  return forward(stream, x, pool, options.kernel_h * options.kernel_w);
}

// The results of both backwards have grad's layout.
Tensor average_pool_backward(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                             const PoolOptions& options) {
  constexpr auto operation = "average_pool_backward";
  const auto pool = PoolWindows::sliding(x_shape, grad.layout(), options, operation);
  pool.check_output(grad, grad.layout(), operation);
  return backward(stream, grad, x_shape, pool, options.kernel_h * options.kernel_w);
}

Tensor adaptive_average_pool(const Stream& stream, const Tensor& x, std::int64_t out_h,
                             std::int64_t out_w) {
  const auto pool =
      PoolWindows::adaptive(x.shape(), x.layout(), out_h, out_w, "adaptive_average_pool");
  return forward(stream, x, pool, 0);
}

Tensor adaptive_average_pool_backward(const Stream& stream, const Tensor& grad,
                                      const Shape& x_shape) {
  constexpr auto operation = "adaptive_average_pool_backward";
  const auto pool =
      PoolWindows::adaptive(x_shape, grad.layout(), grad.dim(-2), grad.dim(-1), operation);
  pool.check_output(grad, grad.layout(), operation);
  return backward(stream, grad, x_shape, pool, 0);
}

}  // namespace troupe::cpu
#endif
