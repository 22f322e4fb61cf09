#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/cpu/checks.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/targets.h"
#include "runtime/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/softmax.cpp"
#include <hwy/foreach_target.h>

#include "hwy/contrib/math/math-inl.h"  // quoted, so that it stays below foreach_target.h
#include "ops/cpu/exponential-inl.h"
#include "ops/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

/// exp(x) for x <= 0 or NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exponential(D d, V x) {
  return nan_of(d, x, exponential_of_negative(d, x));
}

HWY_INLINE float largest_of(const float* x, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr float least = -std::numeric_limits<float>::infinity();
  auto largest = hn::Set(d, least);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) largest = hn::Max(largest, hn::LoadU(d, x + i));
  float result = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; i < count; ++i) result = std::max(result, x[i]);
  return result;
}

void softmax_row(const float* x, float* y, std::int64_t count, bool logarithm) {
  const float largest = largest_of(x, count);
  const double sum = sum_of_row(count, [&](auto d, std::int64_t i, auto total) HWY_ATTR {
    const auto e = exponential(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, largest)));
    if (!logarithm) hn::StoreU(e, d, y + i);
    return hn::Add(total, e);
  });
  const auto factor = static_cast<float>(1 / sum), subtracted = static_cast<float>(std::log(sum));
  for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR {
    if (logarithm) {
      const auto shifted = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, largest));
      hn::StoreU(hn::Sub(shifted, hn::Set(d, subtracted)), d, y + i);
    } else {
      hn::StoreU(hn::Mul(hn::LoadU(d, y + i), hn::Set(d, factor)), d, y + i);
    }
  });
}

void softmax_backward_row(const float* y, const float* grad, float* dx, std::int64_t count,
                          bool logarithm) {
  const auto sum =
      static_cast<float>(sum_of_row(count, [&](auto d, std::int64_t i, auto total) HWY_ATTR {
        const auto g = hn::LoadU(d, grad + i);
        return logarithm ? hn::Add(total, g) : hn::MulAdd(g, hn::LoadU(d, y + i), total);
      }));
  for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto g = hn::LoadU(d, grad + i), output = hn::LoadU(d, y + i);
    const auto result = logarithm ? hn::NegMulAdd(exponential(d, output), hn::Set(d, sum), g)
                                  : hn::Mul(output, hn::Sub(g, hn::Set(d, sum)));
    hn::StoreU(result, d, dx + i);
  });
}

/// Columns of `length` elements that lie `step` apart, `columns` side by side.
void softmax_columns(const float* x, float* y, std::int64_t length, std::int64_t step,
                     std::int64_t columns, bool logarithm) {
  for_lanes(columns, [&](auto d, std::int64_t column) HWY_ATTR {
    const float* from = x + column;
    float* to = y + column;
    auto largest = hn::LoadU(d, from), sum = hn::Zero(d);
    for (std::int64_t i = 1; i < length; ++i)
      largest = hn::Max(largest, hn::LoadU(d, from + i * step));
    for (std::int64_t i = 0; i < length; ++i) {
      const auto shifted = hn::Sub(hn::LoadU(d, from + i * step), largest);
      const auto e = exponential(d, shifted);
      hn::StoreU(logarithm ? shifted : e, d, to + i * step);
      sum = hn::Add(sum, e);
    }
    const auto logarithm_of_sum = hn::IfThenElse(hn::Eq(sum, sum), hn::Log(d, sum), sum);
    for (std::int64_t i = 0; i < length; ++i) {
      const auto value = hn::LoadU(d, to + i * step);
      hn::StoreU(logarithm ? hn::Sub(value, logarithm_of_sum) : hn::Div(value, sum), d,
                 to + i * step);
    }
  });
}

void softmax_backward_columns(const float* y, const float* grad, float* dx, std::int64_t length,
                              std::int64_t step, std::int64_t columns, bool logarithm) {
  for_lanes(columns, [&](auto d, std::int64_t column) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (std::int64_t i = 0; i < length; ++i) {
      const auto g = hn::LoadU(d, grad + column + i * step);
      sum = logarithm ? hn::Add(sum, g) : hn::MulAdd(g, hn::LoadU(d, y + column + i * step), sum);
    }
    for (std::int64_t i = 0; i < length; ++i) {
      const auto g = hn::LoadU(d, grad + column + i * step);
      const auto output = hn::LoadU(d, y + column + i * step);
      const auto result = logarithm ? hn::NegMulAdd(exponential(d, output), sum, g)
                                    : hn::Mul(output, hn::Sub(g, sum));
      hn::StoreU(result, d, dx + column + i * step);
    }
  });
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(softmax_row);
HWY_EXPORT(softmax_backward_row);
HWY_EXPORT(softmax_columns);
HWY_EXPORT(softmax_backward_columns);

namespace {

/// A tensor as [outer, length, inner], of which the middle axis is summed.
struct Lines {
  std::int64_t outer = 1, length = 1, inner = 1;
};

Lines lines_of(const char* operation, const Tensor& x, int axis) {
  if (axis < 0 || axis >= x.rank() || x.layout() != Layout::row_major)
    throw Error(ErrorCode::internal, fmt::format("{}: axis {} of {} in {}", operation, axis,
                                                 to_string(x.shape()), name_of(x.layout())));
  Lines lines{.length = x.shape()[axis]};
  for (int other = 0; other < x.rank(); ++other)
    if (other != axis) (other < axis ? lines.outer : lines.inner) *= x.shape()[other];
  return lines;
}

/// Calls rows(offset) for each line of elements that lie side by side, or columns(offset, count)
/// for groups of other lines.
template <class Row, class Columns>
void for_lines(const Stream& stream, const Lines& lines, const Row& row, const Columns& columns) {
  if (lines.outer * lines.length * lines.inner == 0) return;
  const std::int64_t width = std::min<std::int64_t>(lines.inner, 64);
  const std::int64_t groups = (lines.inner + width - 1) / width;
  const auto grain = std::max<std::int64_t>(1, elements_per_thread / (lines.length * width));
  parallel(stream, lines.outer * groups, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t first = index / groups * lines.length * lines.inner;
      const std::int64_t column = index % groups * width;
      if (lines.inner == 1)
        row(first);
      else
        columns(first + column, std::min(width, lines.inner - column));
    }
  });
}

}  // namespace

Tensor softmax(const Stream& stream, const Tensor& x, int axis, bool logarithm) {
  const Lines lines = lines_of("softmax", x, axis);
  Tensor y = Tensor::empty(x.shape(), DType::f32, stream.device);
  const float* from = x.data<float>();
  auto* to = y.data<float>();
  for_lines(
      stream, lines,
      [&](std::int64_t first) {
        HWY_DYNAMIC_DISPATCH(softmax_row)(from + first, to + first, lines.length, logarithm);
      },
      [&](std::int64_t first, std::int64_t count) {
        HWY_DYNAMIC_DISPATCH(softmax_columns)
        (from + first, to + first, lines.length, lines.inner, count, logarithm);
      });
  return y;
}

Tensor softmax_backward(const Stream& stream, const Tensor& y, const Tensor& grad, int axis,
                        bool logarithm) {
  check_alike("softmax_backward", y, grad);
  const Lines lines = lines_of("softmax_backward", y, axis);
  Tensor dx = Tensor::empty(y.shape(), DType::f32, stream.device);
  const float *output = y.data<float>(), *from = grad.data<float>();
  auto* to = dx.data<float>();
  for_lines(
      stream, lines,
      [&](std::int64_t first) {
        HWY_DYNAMIC_DISPATCH(softmax_backward_row)
        (output + first, from + first, to + first, lines.length, logarithm);
      },
      [&](std::int64_t first, std::int64_t count) {
        HWY_DYNAMIC_DISPATCH(softmax_backward_columns)
        (output + first, from + first, to + first, lines.length, lines.inner, count, logarithm);
      });
  return dx;
}

}  // namespace troupe::cpu
#endif
