#include <algorithm>

#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/pool_windows.h"
#include "ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/max_pool.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/pool-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

/// A value takes the place of the largest so far if it is larger or not a number (as PyTorch).
template <class V>
HWY_INLINE auto replaces(V value, V largest) {
  return hn::Or(hn::Gt(value, largest), hn::IsNaN(value));
}

template <bool two_by_two, class T>
void max_images_as(const PoolWindows& pool, const T* x, T* y, std::int64_t begin,
                   std::int64_t end) {
  const std::int64_t width = pool.width;
  for (std::int64_t image = begin; image < end; ++image) {
    const T* HWY_RESTRICT from = x + image * pool.input_plane();
    T* HWY_RESTRICT to = y + image * pool.output_plane();
    for_windows<two_by_two>(pool, [=](const Window& window, std::int64_t output) HWY_ATTR {
      for_lanes<T>(width, [=](auto d, std::int64_t c) HWY_ATTR {
        const T* at = from + window.first + c;
        auto largest = hn::LoadU(d, at);
        for (std::int64_t h = 0; h < window.rows; ++h, at += window.row_step)
          for (std::int64_t w = 0; w < window.columns; ++w) {
            const auto value = hn::LoadU(d, at + w * width);
            largest = hn::IfThenElse(replaces(value, largest), value, largest);
          }
        hn::StoreU(largest, d, to + output + c);
      });
    });
  }
}

template <class T>
void max_images(const PoolWindows& pool, const T* x, T* y, std::int64_t begin, std::int64_t end) {
  if (pool.two_by_two())
    max_images_as<true>(pool, x, y, begin, end);
  else
    max_images_as<false>(pool, x, y, begin, end);
}

/// The place of the largest element of a window, counted from its first, one a lane.
template <class D>
HWY_INLINE hn::Vec<D> place_of_largest(D d, const hn::TFromD<D>* at, const Window& window,
                                       std::int64_t width) {
  auto largest = hn::LoadU(d, at);
  auto place = hn::Zero(d), here = hn::Zero(d);
  const auto one = hn::Set(d, hn::TFromD<D>(1));
  for (std::int64_t h = 0; h < window.rows; ++h, at += window.row_step)
    for (std::int64_t w = 0; w < window.columns; ++w, here = hn::Add(here, one)) {
      const auto value = hn::LoadU(d, at + w * width);
      const auto better = replaces(value, largest);
      largest = hn::IfThenElse(better, value, largest);
      place = hn::IfThenElse(better, here, place);
    }
  return place;
}

template <bool tiles, bool two_by_two, class T>
void max_gradient_images(const PoolWindows& pool, const T* x, const T* grad, T* dx,
                         std::int64_t begin, std::int64_t end) {
  const std::int64_t width = pool.width;
  for (std::int64_t image = begin; image < end; ++image) {
    const T* HWY_RESTRICT from = x + image * pool.input_plane();
    const T* HWY_RESTRICT gradient = grad + image * pool.output_plane();
    T* HWY_RESTRICT to = dx + image * pool.input_plane();
    if (!tiles) std::fill_n(to, pool.input_plane(), T(0));
    for_windows<two_by_two>(pool, [=](const Window& window, std::int64_t output) HWY_ATTR {
      for_lanes<T>(width, [=](auto d, std::int64_t c) HWY_ATTR {
        const auto place = place_of_largest(d, from + window.first + c, window, width);
        const auto g = hn::LoadU(d, gradient + output + c);
        const auto one = hn::Set(d, T(1));
        auto here = hn::Zero(d);
        T* at = to + window.first + c;
        for (std::int64_t h = 0; h < window.rows; ++h, at += window.row_step)
          for (std::int64_t w = 0; w < window.columns; ++w, here = hn::Add(here, one)) {
            const auto share = hn::IfThenElseZero(hn::Eq(here, place), g);
            T* element = at + w * width;
            hn::StoreU(tiles ? share : hn::Add(hn::LoadU(d, element), share), d, element);
          }
      });
    });
  }
}

template <class T>
void max_gradient(const PoolWindows& pool, const T* x, const T* grad, T* dx, std::int64_t begin,
                  std::int64_t end) {
  if (pool.two_by_two() && pool.tiles())
    max_gradient_images<true, true>(pool, x, grad, dx, begin, end);
  else if (pool.tiles())
    max_gradient_images<true, false>(pool, x, grad, dx, begin, end);
  else if (pool.two_by_two())
    max_gradient_images<false, true>(pool, x, grad, dx, begin, end);
  else
    max_gradient_images<false, false>(pool, x, grad, dx, begin, end);
}

void max_images_f32(const PoolWindows& pool, const float* x, float* y, std::int64_t begin,
                    std::int64_t end) {
  max_images(pool, x, y, begin, end);
}
void max_images_f64(const PoolWindows& pool, const double* x, double* y, std::int64_t begin,
                    std::int64_t end) {
  max_images(pool, x, y, begin, end);
}
void max_gradient_f32(const PoolWindows& pool, const float* x, const float* grad, float* dx,
                      std::int64_t begin, std::int64_t end) {
  max_gradient(pool, x, grad, dx, begin, end);
}
void max_gradient_f64(const PoolWindows& pool, const double* x, const double* grad, double* dx,
                      std::int64_t begin, std::int64_t end) {
  max_gradient(pool, x, grad, dx, begin, end);
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(max_images_f32);
HWY_EXPORT(max_images_f64);
HWY_EXPORT(max_gradient_f32);
HWY_EXPORT(max_gradient_f64);

namespace {

void max_images(const PoolWindows& pool, const float* x, float* y, std::int64_t begin,
                std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(max_images_f32)(pool, x, y, begin, end);
}
void max_images(const PoolWindows& pool, const double* x, double* y, std::int64_t begin,
                std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(max_images_f64)(pool, x, y, begin, end);
}
void max_gradient(const PoolWindows& pool, const float* x, const float* grad, float* dx,
                  std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(max_gradient_f32)(pool, x, grad, dx, begin, end);
}
void max_gradient(const PoolWindows& pool, const double* x, const double* grad, double* dx,
                  std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(max_gradient_f64)(pool, x, grad, dx, begin, end);
}

template <class T>
void pool_images(const Stream& stream, const PoolWindows& pool, const Tensor& x, Tensor& y) {
  const T* from = x.data<T>();
  T* to = y.data<T>();
  parallel(stream, pool.images, pool.grain(),
           [&](std::int64_t begin, std::int64_t end) { max_images(pool, from, to, begin, end); });
}

template <class T>
void pool_gradients(const Stream& stream, const PoolWindows& pool, const Tensor& grad,
                    const Tensor& x, Tensor& dx) {
  const T *from = x.data<T>(), *gradient = grad.data<T>();
  T* to = dx.data<T>();
  parallel(stream, pool.images, pool.grain(), [&](std::int64_t begin, std::int64_t end) {
    max_gradient(pool, from, gradient, to, begin, end);
  });
}

}  // namespace

Tensor max_pool(const Stream& stream, const Tensor& x, const PoolOptions& options) {
  const auto pool = PoolWindows::sliding(x.shape(), x.layout(), options, "max_pool");
  Tensor y = Tensor::empty(pool.output, x.dtype(), stream.device, x.layout());
  if (x.dtype() == DType::f64)
    pool_images<double>(stream, pool, x, y);
  else
    pool_images<float>(stream, pool, x, y);
  return y;
}

// Finds the largest elements again, so that forward need not keep their places.
Tensor max_pool_backward(const Stream& stream, const Tensor& grad, const Tensor& x,
                         const PoolOptions& options) {
  const auto pool = PoolWindows::sliding(x.shape(), x.layout(), options, "max_pool_backward");
  pool.check_output(grad, x.layout(), "max_pool_backward", x.dtype());
  Tensor dx = Tensor::empty(x.shape(), x.dtype(), stream.device, x.layout());
  if (x.dtype() == DType::f64)
    pool_gradients<double>(stream, pool, grad, x, dx);
  else
    pool_gradients<float>(stream, pool, grad, x, dx);
  return dx;
}

}  // namespace troupe::cpu
#endif
