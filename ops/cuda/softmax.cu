#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/layer_checks.h"
#include "ops/cuda/rows.h"

namespace troupe::cuda {
namespace {

// Lines whose inner size is 1 are rows; others are columns, each of which one thread goes through.

template <class Team, class T>
__global__ void softmax_rows(const T* x, T* y, std::int64_t rows, std::int64_t length,
                             bool logarithm) {
  for (std::int64_t row = Team::first_row(); row < rows; row += Team::row_step()) {
    const T* from = x + row * length;
    T* to = y + row * length;
    T largest = -INFINITY, sum = 0;
    for (std::int64_t i = Team::rank(); i < length; i += Team::size)
      largest = Larger{}(from[i], largest);
    largest = largest_of_team<Team>(largest);
    for (std::int64_t i = Team::rank(); i < length; i += Team::size)
      sum += std::exp(from[i] - largest);
    const double total = sum_of_team<Team>(sum);
    const T factor = static_cast<T>(1 / total);
    const T subtracted = logarithm ? static_cast<T>(std::log(total)) : T(0);
    for (std::int64_t i = Team::rank(); i < length; i += Team::size) {
      const T shifted = from[i] - largest;
      to[i] = logarithm ? shifted - subtracted : std::exp(shifted) * factor;
    }
  }
}

template <class T>
__global__ void softmax_columns(const T* x, T* y, Lines lines, bool logarithm) {
  const std::int64_t columns = lines.outer * lines.inner, step = lines.inner;
  for (std::int64_t column = first_index(); column < columns; column += grid_threads()) {
    const std::int64_t first = column / step * lines.length * step + column % step;
    const T* from = x + first;
    T* to = y + first;
    T largest = -INFINITY;
    for (std::int64_t i = 0; i < lines.length; ++i) largest = Larger{}(from[i * step], largest);
    double total = 0;
    for (std::int64_t i = 0; i < lines.length; ++i) total += std::exp(from[i * step] - largest);
    const T factor = static_cast<T>(1 / total);
    const T subtracted = logarithm ? static_cast<T>(std::log(total)) : T(0);
    for (std::int64_t i = 0; i < lines.length; ++i) {
      const T shifted = from[i * step] - largest;
      to[i * step] = logarithm ? shifted - subtracted : std::exp(shifted) * factor;
    }
  }
}

/// `sum`: of grad * y or, for the logarithm, of grad.
template <class T>
__device__ T slope(T y, T grad, T sum, bool logarithm) {
  return logarithm ? grad - std::exp(y) * sum : y * (grad - sum);
}

template <class Team, class T>
__global__ void softmax_rows_backward(const T* y, const T* grad, T* dx, std::int64_t rows,
                                      std::int64_t length, bool logarithm) {
  for (std::int64_t row = Team::first_row(); row < rows; row += Team::row_step()) {
    const T *output = y + row * length, *from = grad + row * length;
    T* to = dx + row * length;
    T sum = 0;
    for (std::int64_t i = Team::rank(); i < length; i += Team::size)
      sum += logarithm ? from[i] : from[i] * output[i];
    const T total = static_cast<T>(sum_of_team<Team>(sum));
    for (std::int64_t i = Team::rank(); i < length; i += Team::size)
      to[i] = slope(output[i], from[i], total, logarithm);
  }
}

template <class T>
__global__ void softmax_columns_backward(const T* y, const T* grad, T* dx, Lines lines,
                                         bool logarithm) {
  const std::int64_t columns = lines.outer * lines.inner, step = lines.inner;
  for (std::int64_t column = first_index(); column < columns; column += grid_threads()) {
    const std::int64_t first = column / step * lines.length * step + column % step;
    const T *output = y + first, *from = grad + first;
    T* to = dx + first;
    double sum = 0;
    for (std::int64_t i = 0; i < lines.length; ++i)
      sum += logarithm ? from[i * step] : from[i * step] * output[i * step];
    const T total = static_cast<T>(sum);
    for (std::int64_t i = 0; i < lines.length; ++i)
      to[i * step] = slope(output[i * step], from[i * step], total, logarithm);
  }
}

dim3 column_blocks(const Lines& lines) { return blocks_for(lines.outer * lines.inner); }

}  // namespace

Tensor softmax(const Stream& stream, const Tensor& x, int axis, bool logarithm) {
  const Lines lines = lines_of("softmax", x, axis);
  Tensor y = result_like(stream, x);
  if (x.element_count() == 0) return y;
  visit_float(x.dtype(), [&]<class T>(T) {
    const T* from = input<T>(stream, x);
    T* to = output<T>(stream, y);
    if (lines.inner > 1)
      return Launch(stream, column_blocks(lines), block_threads)(softmax_columns<T>, from, to,
                                                                 lines, logarithm);
    for_rows(stream, lines.outer, lines.length, [&]<class Team>(Team, const Launch& launch) {
      launch(softmax_rows<Team, T>, from, to, lines.outer, lines.length, logarithm);
    });
  });
  return y;
}

Tensor softmax_backward(const Stream& stream, const Tensor& y, const Tensor& grad, int axis,
                        bool logarithm) {
  check_alike("softmax_backward", y, grad);
  const Lines lines = lines_of("softmax_backward", y, axis);
  Tensor dx = result_like(stream, y);
  if (y.element_count() == 0) return dx;
  visit_float(y.dtype(), [&]<class T>(T) {
    const T *from = input<T>(stream, y), *slopes = input<T>(stream, grad);
    T* to = output<T>(stream, dx);
    if (lines.inner > 1)
      return Launch(stream, column_blocks(lines), block_threads)(softmax_columns_backward<T>, from,
                                                                 slopes, to, lines, logarithm);
    for_rows(stream, lines.outer, lines.length, [&]<class Team>(Team, const Launch& launch) {
      launch(softmax_rows_backward<Team, T>, from, slopes, to, lines.outer, lines.length,
             logarithm);
    });
  });
  return dx;
}

}  // namespace troupe::cuda
