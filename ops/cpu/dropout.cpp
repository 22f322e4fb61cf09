#include "ops/cpu/dropout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/targets.h"
#include "runtime/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/dropout.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/philox-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;

HWY_INLINE hn::Vec<Floats> scales(const DropoutPattern& pattern, WordVector numbers) {
  const Words words;
  const Floats floats;
  const auto dropped = hn::Lt(numbers, hn::Set(words, pattern.threshold));
  return hn::IfThenZeroElse(hn::RebindMask(floats, dropped),
                            hn::Set(floats, static_cast<float>(pattern.scale)));
}

/// Consecutive elements: lanes are consecutive blocks, whose numbers are interleaved.
const float* fill_linear(const DropoutPattern& pattern, std::int64_t offset, std::int64_t length,
                         float* buffer) {
  const Words d;
  const Floats floats;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t lead = offset % 4;
  auto block = static_cast<std::uint32_t>(offset / 4);
  for (std::int64_t i = 0; i < lead + length; i += 4 * lanes) {
    const PhiloxBlocks blocks = philox_blocks(pattern.random, hn::Iota(d, block));
    const auto s0 = scales(pattern, blocks.number[0]), s1 = scales(pattern, blocks.number[1]);
    const auto s2 = scales(pattern, blocks.number[2]), s3 = scales(pattern, blocks.number[3]);
#if HWY_TARGET == HWY_SCALAR
    hn::StoreU(s0, floats, buffer + i), hn::StoreU(s1, floats, buffer + i + 1);
    hn::StoreU(s2, floats, buffer + i + 2), hn::StoreU(s3, floats, buffer + i + 3);
#else
    hn::StoreInterleaved4(s0, s1, s2, s3, floats, buffer + i);
#endif
    block += static_cast<std::uint32_t>(lanes);
  }
  return buffer + lead;
}

/// Lanes are channels: element `first` + l * plane for lane l, and rows count up from there. A
/// block covers four rows, but begins at another row in each lane when the plane is no multiple of
/// four: a barrel shifter over the numbers of two blocks lines the lanes up.
void fill_rows(const DropoutPattern& pattern, std::int64_t first, std::int64_t rows,
               float* buffer) {
  const Words d;
  const Floats floats;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN std::uint32_t block_of[HWY_MAX_BYTES / 4];
  HWY_ALIGN std::uint32_t shift_of[HWY_MAX_BYTES / 4];
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    const std::int64_t element = first + lane * pattern.plane;
    block_of[lane] = static_cast<std::uint32_t>(element / 4);
    shift_of[lane] = static_cast<std::uint32_t>(element % 4);
  }
  const WordVector shift = hn::Load(d, shift_of);
  const auto by_one = hn::TestBit(shift, hn::Set(d, 1u));
  const auto by_two = hn::TestBit(shift, hn::Set(d, 2u));
  WordVector block = hn::Load(d, block_of);
  PhiloxBlocks now = philox_blocks(pattern.random, block);
  for (std::int64_t row = 0; row < rows; row += 4) {
    block = hn::Add(block, hn::Set(d, 1u));
    const PhiloxBlocks next = philox_blocks(pattern.random, block);
    const WordVector numbers[7] = {now.number[0],  now.number[1],  now.number[2], now.number[3],
                                   next.number[0], next.number[1], next.number[2]};
    WordVector odd[6];
    for (int i = 0; i < 6; ++i) odd[i] = hn::IfThenElse(by_one, numbers[i + 1], numbers[i]);
    float* to = buffer + row * pattern.width;
    const int count = static_cast<int>(rows - row < 4 ? rows - row : 4);
    for (int i = 0; i < count; ++i)
      hn::StoreU(scales(pattern, hn::IfThenElse(by_two, odd[i + 2], odd[i])), floats,
                 to + i * pattern.width);
    now = next;
  }
}

/// Rows of channels. Groups of channels go from the last to the first, so that the surplus lanes of
/// the last group, which spill into the rows below, are overwritten by what belongs there.
const float* fill_permuted(const DropoutPattern& pattern, std::int64_t offset, std::int64_t length,
                           float* buffer) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Words()));
  const std::int64_t blocks = pattern.channels / pattern.width;
  const std::int64_t last_group = (pattern.width - 1) / lanes * lanes;
  const std::int64_t end = (offset + length) / pattern.width;
  float* to = buffer;
  for (std::int64_t row = offset / pattern.width; row < end;) {
    const std::int64_t image = row / pattern.plane, in_plane = row % pattern.plane;
    const std::int64_t left = end - row, whole = pattern.plane - in_plane;
    const std::int64_t rows = left < whole ? left : whole;
    const std::int64_t channel =
        image / blocks * pattern.channels + image % blocks * pattern.width;  // over all samples
    for (std::int64_t group = last_group; group >= 0; group -= lanes)
      fill_rows(pattern, (channel + group) * pattern.plane + in_plane, rows, to + group);
    row += rows;
    to += rows * pattern.width;
  }
  return buffer;
}

const float* fill(const DropoutPattern& pattern, std::int64_t offset, std::int64_t length,
                  float* buffer) {
  return pattern.linear ? fill_linear(pattern, offset, length, buffer)
                        : fill_permuted(pattern, offset, length, buffer);
}

template <class T>
void multiply(const T* x, const T* factors, T* y, std::int64_t count) {
  for_lanes<T>(count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, factors + i)), d, y + i);
  });
}

void multiply_f32(const float* x, const float* factors, float* y, std::int64_t count) {
  multiply(x, factors, y, count);
}
void multiply_f64(const double* x, const double* factors, double* y, std::int64_t count) {
  multiply(x, factors, y, count);
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(fill);
HWY_EXPORT(multiply_f32);
HWY_EXPORT(multiply_f64);

DropoutPattern DropoutPattern::of(const Tensor& x, double probability, const RandomKey& random) {
  const auto p = static_cast<float>(probability);
  if (!(p >= 0.0f && p < 1.0f))
    throw Error(ErrorCode::bad_options,
                fmt::format("dropout: the probability is {}; it must be in [0, 1)", probability),
                "check `dropout`");
  DropoutPattern pattern;
  pattern.random = random;
  // uniform_float(bits) < p  <=>  (bits >> 8) < p 2^24  <=>  bits < ceil(p 2^24) 2^8
  pattern.threshold = static_cast<std::uint32_t>(std::ceil(p * 0x1p24f)) << 8;
  pattern.scale = x.dtype() == DType::f64 ? 1.0 / (1.0 - probability) : 1.0f / (1.0f - p);
  if (x.layout() == Layout::row_major) return pattern;
  pattern.linear = false;
  pattern.channels = x.shape()[1];
  pattern.plane = x.shape()[2] * x.shape()[3];
  pattern.width = x.layout() == Layout::nchw16c ? 16 : pattern.channels;
  return pattern;
}

namespace {

/// Elements that the lanes of `fill` write beyond its length.
constexpr std::int64_t scale_padding = 72;

void multiply(const float* x, const float* factors, float* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(multiply_f32)(x, factors, y, count);
}
void multiply(const double* x, const double* factors, double* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(multiply_f64)(x, factors, y, count);
}

template <class T>
void drop(const Stream& stream, const DropoutPattern& pattern, const Tensor& x, Tensor& y) {
  if (x.element_count() == 0) return;
  const T* from = x.data<T>();
  T* to = y.data<T>();
  // Whole rows of memory at a time, about as much as stays in the first-level cache.
  const std::int64_t rows = std::max<std::int64_t>(1, 2048 / pattern.width);
  const std::int64_t step = rows * pattern.width, count = x.element_count();
  parallel(stream, (count + step - 1) / step, elements_per_thread / step,
           [&](std::int64_t begin, std::int64_t end) {
             DropoutScales<T> scales(step);
             for (std::int64_t offset = begin * step; offset < std::min(end * step, count);
                  offset += step) {
               const std::int64_t length = std::min(step, count - offset);
               multiply(from + offset, scales.fill(pattern, offset, length), to + offset, length);
             }
           });
}

}  // namespace

template <class T>
DropoutScales<T>::DropoutScales(std::int64_t length)
    : drawn_(static_cast<std::size_t>(length > 0 ? length + scale_padding : 0)),
      widened_(std::is_same_v<T, double> ? static_cast<std::size_t>(length) : 0) {}

template <class T>
const T* DropoutScales<T>::fill(const DropoutPattern& pattern, std::int64_t offset,
                                std::int64_t length) {
  const float* drawn = HWY_DYNAMIC_DISPATCH(fill)(pattern, offset, length, drawn_.data());
  if constexpr (std::is_same_v<T, float>) {
    return drawn;
  } else {
    for (std::int64_t i = 0; i < length; ++i)
      widened_[static_cast<std::size_t>(i)] = drawn[i] == 0.0f ? 0.0 : pattern.scale;
    return widened_.data();
  }
}
template class DropoutScales<float>;
template class DropoutScales<double>;

Tensor dropout(const Stream& stream, const Tensor& x, double probability, const RandomKey& random) {
  const DropoutPattern pattern = DropoutPattern::of(x, probability, random);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), stream.device, x.layout());
  if (x.dtype() == DType::f64)
    drop<double>(stream, pattern, x, y);
  else
    drop<float>(stream, pattern, x, y);
  return y;
}

}  // namespace troupe::cpu
#endif
