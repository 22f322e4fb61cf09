#include "runtime/transport/tree_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <vector>

#include "runtime/error.h"
#include "runtime/tensor/cast.h"

namespace troupe::transport {
namespace {

/// Elements summed at a time: the temporaries of all levels stay in the first-level cache.
constexpr std::size_t block = 512;

// As to_float and to_bfloat16 of runtime/tensor/cast.h, but inline and without branches, so that
// the compiler makes vector instructions of them.
inline float widened(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

inline BFloat16 rounded(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t even = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;  // what is not a number stays one
  const bool number = (bits & 0x7FFFFFFFu) <= 0x7F800000u;
  return {static_cast<std::uint16_t>(number ? even : quiet)};
}

template <class T>
T add(T left, T right) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return rounded(widened(left) + widened(right));
  } else if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(to_float(left) + to_float(right));
  } else if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;  // wraps, where a signed sum must not
    return static_cast<T>(static_cast<Unsigned>(left) + static_cast<Unsigned>(right));
  } else {
    return left + right;
  }
}

/// into may be left or right, so the compiler is told that no element depends on another.
template <class T>
void add_block(const T* left, const T* right, T* into, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t e = 0; e < count; ++e) into[e] = add(left[e], right[e]);
}

/// The sum of one block of parts [begin, begin + width), width a power of two: where it is, which
/// is the part itself if it is alone, else `into`. `scratch` has room for two blocks a level.
template <class T>
const T* sum_node(std::span<const T* const> parts, std::size_t begin, std::size_t width,
                  std::size_t count, T* scratch, T* into) {
  if (width == 1) return parts[begin];
  const std::size_t half = width / 2;
  if (begin + half >= parts.size()) return sum_node(parts, begin, half, count, scratch, into);
  const T* left = sum_node(parts, begin, half, count, scratch + block, scratch);
  const T* right = sum_node(parts, begin + half, half, count, scratch + 2 * block, scratch + block);
  add_block(left, right, into, count);
  return into;
}

template <class T>
void sum_all(std::span<const std::byte* const> parts, std::byte* out, std::size_t count) {
  const std::size_t width = std::bit_ceil(parts.size());
  std::vector<T> scratch(2 * static_cast<std::size_t>(std::bit_width(width)) * block);
  std::vector<const T*> at(parts.size());
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t length = std::min(block, count - begin);
    for (std::size_t part = 0; part < parts.size(); ++part)
      at[part] = reinterpret_cast<const T*>(parts[part]) + begin;
    T* into = reinterpret_cast<T*>(out) + begin;
    const T* sum = sum_node<T>(at, 0, width, length, scratch.data(), into);
    if (sum != into) std::memcpy(into, sum, length * sizeof(T));
  }
}

}  // namespace

bool has_sum(DType dtype) {
  return is_floating(dtype) || dtype == DType::i32 || dtype == DType::i64;
}

void tree_sum(DType dtype, std::span<const std::byte* const> parts, std::byte* out,
              std::size_t count) {
  switch (dtype) {
    case DType::f32:
      return sum_all<float>(parts, out, count);
    case DType::f64:
      return sum_all<double>(parts, out, count);
    case DType::bf16:
      return sum_all<BFloat16>(parts, out, count);
    case DType::f16:
      return sum_all<Float16>(parts, out, count);
    case DType::i32:
      return sum_all<std::int32_t>(parts, out, count);
    case DType::i64:
      return sum_all<std::int64_t>(parts, out, count);
    default:
      throw Error(ErrorCode::unsupported, fmt::format("sum of {} tensors", name_of(dtype)),
                  "sums are there for f32, f64, bf16, f16, i32 and i64");
  }
}

}  // namespace troupe::transport
