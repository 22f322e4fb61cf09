#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/reference/kernels.h"
#include "ops/reference/reorder.h"

namespace troupe::reference {
namespace {

// Part [begin, end) of one axis of the image, and how many elements the window has with padding.
struct Part {
  std::int64_t begin, end, size;
};

Part window(std::int64_t in, std::int64_t o, std::int64_t kernel, std::int64_t stride,
            std::int64_t padding) {
  const std::int64_t begin = o * stride - padding;
  // A window that reaches beyond even the padding is cut there, as PyTorch's.
  const std::int64_t size = std::min(kernel, in + padding - begin);
  return {std::max<std::int64_t>(begin, 0), std::min(begin + kernel, in), size};
}

Part share(std::int64_t in, std::int64_t o, std::int64_t out) {
  const std::int64_t begin = o * in / out;
  const std::int64_t end = ((o + 1) * in + out - 1) / out;
  return {begin, end, end - begin};
}

std::int64_t outputs(std::int64_t in, std::int64_t kernel, std::int64_t stride,
                     std::int64_t padding) {
  return (in + 2 * padding - kernel) / stride + 1;
}

Shape pooled(const Shape& x, const PoolOptions& o) {
  return Shape{x[0], x[1], outputs(x[2], o.kernel_h, o.stride_h, o.padding_h),
               outputs(x[3], o.kernel_w, o.stride_w, o.padding_w)};
}

// Where the windows of an output lie in the input.
auto windows(const Shape& x, const PoolOptions& o) {
  return [x, o](std::int64_t oh, std::int64_t ow) {
    return std::pair{window(x[2], oh, o.kernel_h, o.stride_h, o.padding_h),
                     window(x[3], ow, o.kernel_w, o.stride_w, o.padding_w)};
  };
}

auto shares(const Shape& x, const Shape& y) {
  return [x, y](std::int64_t oh, std::int64_t ow) {
    return std::pair{share(x[2], oh, y[2]), share(x[3], ow, y[3])};
  };
}

// Calls visit(offset of the plane in x, offset of the element in y, rows, columns) for each window.
template <class Windows, class Visit>
void each_window(const Shape& x, const Shape& y, Windows windows_of, Visit visit) {
  std::int64_t element = 0;
  for (std::int64_t plane = 0; plane < x[0] * x[1]; ++plane)
    for (std::int64_t oh = 0; oh < y[2]; ++oh)
      for (std::int64_t ow = 0; ow < y[3]; ++ow) {
        const auto [rows, columns] = windows_of(oh, ow);
        visit(plane * x[2] * x[3], element++, rows, columns);
      }
}

// The first largest element of a window; a NaN counts as largest.
std::int64_t largest(const double* plane, std::int64_t width, Part rows, Part columns) {
  std::int64_t best = rows.begin * width + columns.begin;
  for (std::int64_t h = rows.begin; h < rows.end; ++h)
    for (std::int64_t w = columns.begin; w < columns.end; ++w) {
      const double value = plane[h * width + w];
      if (value > plane[best] || (std::isnan(value) && !std::isnan(plane[best])))
        best = h * width + w;
    }
  return best;
}

Tensor zeros(const Shape& shape, Device device) {
  Tensor result = Tensor::empty(shape, DType::f64, device);
  std::ranges::fill(result.elements<double>(), 0.0);
  return result;
}

template <class Windows>
Tensor averages(const Tensor& given, const Shape& y_shape, Windows windows_of) {
  const Tensor x = row_major(given);
  const std::int64_t width = x.dim(3);
  Tensor y = Tensor::empty(y_shape, DType::f64, x.device());
  each_window(x.shape(), y_shape, windows_of,
              [&](std::int64_t plane, std::int64_t element, Part rows, Part columns) {
                double sum = 0;
                for (std::int64_t h = rows.begin; h < rows.end; ++h)
                  for (std::int64_t w = columns.begin; w < columns.end; ++w)
                    sum += x.data<double>()[plane + h * width + w];
                y.data<double>()[element] = sum / static_cast<double>(rows.size * columns.size);
              });
  return in_layout(y, given.layout());
}

template <class Windows>
Tensor averages_backward(const Tensor& given, const Shape& x_shape, Windows windows_of) {
  const Tensor grad = row_major(given);
  Tensor x_grad = zeros(x_shape, grad.device());
  each_window(x_shape, grad.shape(), windows_of,
              [&](std::int64_t plane, std::int64_t element, Part rows, Part columns) {
                const double part =
                    grad.data<double>()[element] / static_cast<double>(rows.size * columns.size);
                for (std::int64_t h = rows.begin; h < rows.end; ++h)
                  for (std::int64_t w = columns.begin; w < columns.end; ++w)
                    x_grad.data<double>()[plane + h * x_shape[3] + w] += part;
              });
  return in_layout(x_grad, given.layout());
}

}  // namespace

Tensor max_pool(const Stream&, const Tensor& given, const PoolOptions& options) {
  const Tensor x = row_major(given);
  Tensor y = Tensor::empty(pooled(x.shape(), options), DType::f64, x.device());
  each_window(x.shape(), y.shape(), windows(x.shape(), options),
              [&](std::int64_t plane, std::int64_t element, Part rows, Part columns) {
                const double* image = x.data<double>() + plane;
                y.data<double>()[element] = image[largest(image, x.dim(3), rows, columns)];
              });
  return in_layout(y, given.layout());
}

Tensor max_pool_backward(const Stream&, const Tensor& given_grad, const Tensor& given_x,
                         const PoolOptions& options) {
  const Tensor x = row_major(given_x), grad = row_major(given_grad);
  Tensor x_grad = zeros(x.shape(), grad.device());
  each_window(x.shape(), grad.shape(), windows(x.shape(), options),
              [&](std::int64_t plane, std::int64_t element, Part rows, Part columns) {
                const auto best = largest(x.data<double>() + plane, x.dim(3), rows, columns);
                x_grad.data<double>()[plane + best] += grad.data<double>()[element];
              });
  return in_layout(x_grad, given_x.layout());
}

Tensor average_pool(const Stream&, const Tensor& x, const PoolOptions& options) {
  return averages(x, pooled(x.shape(), options), windows(x.shape(), options));
}

Tensor average_pool_backward(const Stream&, const Tensor& grad, const Shape& x_shape,
                             const PoolOptions& options) {
  return averages_backward(grad, x_shape, windows(x_shape, options));
}

Tensor adaptive_average_pool(const Stream&, const Tensor& x, std::int64_t out_h,
                             std::int64_t out_w) {
  const Shape y_shape{x.dim(0), x.dim(1), out_h, out_w};
  return averages(x, y_shape, shares(x.shape(), y_shape));
}

Tensor adaptive_average_pool_backward(const Stream&, const Tensor& grad, const Shape& x_shape) {
  return averages_backward(grad, x_shape, shares(x_shape, grad.shape()));
}

}  // namespace troupe::reference
