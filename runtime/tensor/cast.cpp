#include "runtime/tensor/cast.h"

#include <fmt/format.h>

#include <bit>
#include <type_traits>

#include "runtime/error.h"

namespace troupe {
namespace {

constexpr std::uint32_t float_infinity = 0x7F800000u;
constexpr std::uint32_t smallest_normal_half = 113u << 23;  // 2^-14 as f32
constexpr std::uint32_t beyond_half = 143u << 23;           // 2^16 as f32

template <class T>
constexpr bool is_floating_element = std::is_floating_point_v<T> || std::is_class_v<T>;

template <class To, class From>
To converted(From value) {
  if constexpr (std::is_class_v<From>)
    return converted<To>(to_float(value));
  else if constexpr (std::is_same_v<To, BFloat16>)
    return to_bfloat16(static_cast<float>(value));
  else if constexpr (std::is_same_v<To, Float16>)
    return to_float16(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

template <class From, class To>
Tensor convert(const Tensor& from) {
  Tensor to = Tensor::empty(from.shape(), dtype_of<To>, from.device(), from.layout());
  const auto in = from.elements<From>();
  const auto out = to.elements<To>();
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = converted<To>(in[i]);
  return to;
}

[[noreturn]] void refuse(DType from, DType to) {
  throw Error(ErrorCode::unsupported, fmt::format("cast: {} to {}", name_of(from), name_of(to)),
              "only f32, f64, bf16 and f16 are converted");
}

}  // namespace

float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// F. Giesen, "Half to float done quick" (2012): shift the fields, correct the exponent's bias, and
// let one subtraction normalise subnormal numbers.
float to_float(Float16 value) {
  constexpr std::uint32_t exponent_bits = 0x7C00u << 13;
  std::uint32_t bits = (value.bits & 0x7FFFu) << 13;
  const std::uint32_t exponent = bits & exponent_bits;
  bits += (127u - 15u) << 23;
  if (exponent == exponent_bits) {
    bits += (128u - 16u) << 23;
  } else if (exponent == 0) {
    const float normalised =
        std::bit_cast<float>(bits + (1u << 23)) - std::bit_cast<float>(smallest_normal_half);
    bits = std::bit_cast<std::uint32_t>(normalised);
  }
  return std::bit_cast<float>(bits | (static_cast<std::uint32_t>(value.bits & 0x8000u) << 16));
}

BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & ~0x80000000u) > float_infinity)  // a NaN stays one
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

Float16 to_float16(float value) {
  const auto all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (all >> 16) & 0x8000u;
  std::uint32_t bits = all & ~0x80000000u;
  if (bits >= beyond_half) {
    bits = bits > float_infinity ? 0x7E00u : 0x7C00u;
  } else if (bits < smallest_normal_half) {
    // Adding 0.5 lines the ten mantissa bits up with those of f32, rounded by the addition.
    bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) + 0.5f) -
           std::bit_cast<std::uint32_t>(0.5f);
  } else {
    const std::uint32_t odd = (bits >> 13) & 1u;
    bits = (bits - ((127u - 15u) << 23) + 0xFFFu + odd) >> 13;
  }
  return {static_cast<std::uint16_t>(sign | bits)};
}

Tensor cast(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  return visit_element(tensor.dtype(), [&](auto from) {
    return visit_element(dtype, [&](auto to) -> Tensor {
      using From = typename decltype(from)::type;
      using To = typename decltype(to)::type;
      if constexpr (is_floating_element<From> && is_floating_element<To>)
        return convert<From, To>(tensor);
      refuse(tensor.dtype(), dtype);
    });
  });
}

Tensor widest(const Tensor& tensor) {
  if (is_floating(tensor.dtype())) return cast(tensor, DType::f64);
  if (tensor.dtype() == DType::i64) return tensor;
  return visit_element(tensor.dtype(), [&](auto element) {
    return convert<typename decltype(element)::type, std::int64_t>(tensor);
  });
}

}  // namespace troupe
