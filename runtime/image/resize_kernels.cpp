#include "runtime/image/resize_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/image/resize_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace troupe {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The sums begin at one half, for rounding; DemoteTo limits to [0, 255].
template <class D, class PixelAt>
auto weighted_sum(D d, const ResizeAxis::Taps& taps, const PixelAt& pixel_at) {
  const hn::Rebind<std::uint8_t, D> bytes;
  auto sum = hn::Set(d, 1 << (weight_bits - 1));
  for (std::int64_t i = 0; i < taps.count; ++i) {
    const auto pixel = hn::PromoteTo(d, hn::LoadU(bytes, pixel_at(i)));
    sum = hn::Add(sum, hn::Mul(pixel, hn::Set(d, taps.weights[i])));
  }
  return hn::DemoteTo(bytes, hn::ShiftRight<weight_bits>(sum));
}

void resize_columns(const std::uint8_t* row, std::int64_t step, const ResizeAxis& columns,
                    std::uint8_t* out) {
  const hn::CappedTag<std::int32_t, resized_pixel> d;  // without vectors: byte by byte
  const hn::Rebind<std::uint8_t, decltype(d)> bytes;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  for (std::int64_t x = 0; x < columns.size(); ++x, out += resized_pixel) {
    const ResizeAxis::Taps taps = columns[x];
    for (std::int64_t byte = 0; byte < resized_pixel; byte += lanes) {
      const std::uint8_t* first = row + taps.first * step + byte;
      hn::StoreU(weighted_sum(d, taps, [&](std::int64_t i) { return first + i * step; }), bytes,
                 out + byte);
    }
  }
}

void resize_rows(const std::uint8_t* from, std::int64_t stride, const ResizeAxis::Taps& taps,
                 std::uint8_t* out) {
  const hn::ScalableTag<std::int32_t> d;
  const hn::Rebind<std::uint8_t, decltype(d)> bytes;
  for (std::int64_t x = 0; x < stride; x += static_cast<std::int64_t>(hn::Lanes(d)))
    hn::StoreU(weighted_sum(d, taps, [&](std::int64_t i) { return from + x + i * stride; }), bytes,
               out + x);
}

}  // namespace HWY_NAMESPACE
}  // namespace troupe
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe {
HWY_EXPORT(resize_columns);
HWY_EXPORT(resize_rows);

void resize_columns(const std::uint8_t* row, std::int64_t step, const ResizeAxis& columns,
                    std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(resize_columns)(row, step, columns, out);
}

void resize_rows(const std::uint8_t* from, std::int64_t stride, const ResizeAxis::Taps& taps,
                 std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(resize_rows)(from, stride, taps, out);
}

}  // namespace troupe
#endif  // HWY_ONCE
