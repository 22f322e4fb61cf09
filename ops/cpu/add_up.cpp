#include "ops/cpu/add_up.h"

#include <algorithm>

#include "ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/add_up.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

/// Adds to four vectors of sums, which stay in registers.
void add_up_vectors(const Partials& partials, std::int64_t begin, double* sums) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto a = hn::LoadU(d, sums), b = hn::LoadU(d, sums + lanes);
  auto c = hn::LoadU(d, sums + 2 * lanes), e = hn::LoadU(d, sums + 3 * lanes);
  const float* HWY_RESTRICT from = partials.first + begin;
  for (std::int64_t p = 0; p < partials.count; ++p, from += partials.stride) {
    a = hn::Add(a, hn::PromoteTo(d, hn::LoadU(narrow, from)));
    b = hn::Add(b, hn::PromoteTo(d, hn::LoadU(narrow, from + lanes)));
    c = hn::Add(c, hn::PromoteTo(d, hn::LoadU(narrow, from + 2 * lanes)));
    e = hn::Add(e, hn::PromoteTo(d, hn::LoadU(narrow, from + 3 * lanes)));
  }
  hn::StoreU(a, d, sums), hn::StoreU(b, d, sums + lanes);
  hn::StoreU(c, d, sums + 2 * lanes), hn::StoreU(e, d, sums + 3 * lanes);
}

void add_up_block(const Partials& partials, std::int64_t begin, std::int64_t count, double* sums) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t first = 0;
  for (; first + 4 * lanes <= count; first += 4 * lanes)
    add_up_vectors(partials, begin + first, sums + first);
  if (first == count) return;
  for (std::int64_t p = 0; p < partials.count; ++p) {
    const float* HWY_RESTRICT from = partials.first + p * partials.stride + begin;
    std::int64_t i = first;
    for (; i + lanes <= count; i += lanes) {
      const auto next = hn::PromoteTo(d, hn::LoadU(narrow, from + i));
      hn::StoreU(hn::Add(hn::LoadU(d, sums + i), next), d, sums + i);
    }
    for (; i < count; ++i) sums[i] += from[i];
  }
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(add_up_block);

void add_up_in_f64(const Stream& stream, const Partials& partials, std::int64_t count, double scale,
                   float* to) {
  constexpr std::int64_t block = 128;
  const std::int64_t cost = std::max<std::int64_t>(1, partials.count);
  parallel(stream, count, std::max<std::int64_t>(1, elements_per_thread / cost),
           [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t first = begin; first < end; first += block) {
               double sums[block] = {};
               const std::int64_t size = std::min(block, end - first);
               HWY_DYNAMIC_DISPATCH(add_up_block)(partials, first, size, sums);
               for (std::int64_t i = 0; i < size; ++i)
                 to[first + i] = static_cast<float>(sums[i] * scale);
             }
           });
}

}  // namespace troupe::cpu
#endif
