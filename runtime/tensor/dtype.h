#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe {

/// Element types. bf16 and f16 are storage: kernels convert them at their edges.
enum class DType : std::uint8_t {
  f32,
  f64,
  bf16,
  f16,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean
};

constexpr DType last_enumerator(DType) { return DType::boolean; }

/// 16-bit floating-point storage; arithmetic happens in f32.
struct BFloat16 {
  std::uint16_t bits = 0;
};
struct Float16 {
  std::uint16_t bits = 0;
};

std::size_t size_of(DType dtype);       ///< bytes of one element
std::string_view name_of(DType dtype);  ///< "f32"; the spelling of error messages and options
bool is_floating(DType dtype);
std::optional<DType> find_dtype(std::string_view name);  ///< the inverse of name_of

namespace detail {
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::i16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::u32;
};
template <>
struct DTypeOf<std::uint64_t> {
  static constexpr DType value = DType::u64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
}  // namespace detail

/// The DType whose elements are stored as T.
template <class T>
inline constexpr DType dtype_of = detail::DTypeOf<T>::value;

}  // namespace troupe
