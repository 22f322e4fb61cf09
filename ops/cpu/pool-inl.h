// The walk over the windows of a pooling; compiled once for each instruction set.

#if defined(TROUPE_OPS_CPU_POOL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_OPS_CPU_POOL_INL_H_
#undef TROUPE_OPS_CPU_POOL_INL_H_
#else
#define TROUPE_OPS_CPU_POOL_INL_H_
#endif

#include "ops/cpu/pool_windows.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

/// One window of a plane.
struct Window {
  std::int64_t first;     // element of the plane
  std::int64_t row_step;  // elements between rows
  std::int64_t rows, columns;
};

/// Calls f(window, output) for each window of a plane; `output` is the first element of its result.
/// `two_by_two` says that all windows are such, so that the compiler unrolls loops over them.
template <bool two_by_two = false, class F>
HWY_INLINE void for_windows(const PoolWindows& pool, const F& f) {
  const std::int64_t row_step = pool.w.input * pool.width;
  std::int64_t output = 0;
  for (std::int64_t i = 0; i < pool.h.count(); ++i) {
    const auto row = static_cast<std::size_t>(i);
    const std::int64_t begin = pool.h.begin[row], rows = pool.h.end[row] - begin;
    for (std::int64_t j = 0; j < pool.w.count(); ++j, output += pool.width) {
      const auto column = static_cast<std::size_t>(j);
      const std::int64_t left = pool.w.begin[column];
      const std::int64_t columns = pool.w.end[column] - left;
      f(Window{begin * row_step + left * pool.width, row_step, two_by_two ? 2 : rows,
               two_by_two ? 2 : columns},
        output);
    }
  }
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
