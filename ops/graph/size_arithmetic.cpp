#include "ops/graph/size_arithmetic.h"

namespace troupe::graph {
namespace {

std::optional<std::int64_t> times(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

}  // namespace

std::optional<Size> add(const Size& a, const Size& b) {
  Size result;
  if (__builtin_add_overflow(a.fixed, b.fixed, &result.fixed) ||
      __builtin_add_overflow(a.per_sample, b.per_sample, &result.per_sample))
    return std::nullopt;
  return result;
}

std::optional<Size> subtract(const Size& a, const Size& b) {
  Size result;
  if (__builtin_sub_overflow(a.fixed, b.fixed, &result.fixed) ||
      __builtin_sub_overflow(a.per_sample, b.per_sample, &result.per_sample))
    return std::nullopt;
  return result;
}

std::optional<Size> multiply(const Size& a, const Size& b) {
  if (!is_fixed(a) && !is_fixed(b)) return std::nullopt;
  const Size& grows = is_fixed(a) ? b : a;
  const std::int64_t factor = is_fixed(a) ? a.fixed : b.fixed;
  const auto fixed = times(grows.fixed, factor);
  const auto per_sample = times(grows.per_sample, factor);
  if (!fixed || !per_sample) return std::nullopt;
  return Size{*fixed, *per_sample};
}

std::optional<Size> divide(const Size& a, const Size& b) {
  const auto exact = [](std::int64_t x, std::int64_t y) { return y > 0 && x >= 0 && x % y == 0; };
  if (is_fixed(b)) {
    if (!exact(a.fixed, b.fixed) || !exact(a.per_sample, b.fixed)) return std::nullopt;
    return Size{a.fixed / b.fixed, a.per_sample / b.fixed};
  }
  // A multiple of b, for every number of samples.
  if (!exact(a.per_sample, b.per_sample)) return std::nullopt;
  const std::int64_t quotient = a.per_sample / b.per_sample;
  if (times(b.fixed, quotient) != a.fixed) return std::nullopt;
  return Size{quotient, 0};
}

}  // namespace troupe::graph
