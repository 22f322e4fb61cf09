#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

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

/// What the elements of each type are stored as, in the order of DType.
using Elements =
    std::tuple<float, double, BFloat16, Float16, std::int8_t, std::int16_t, std::int32_t,
               std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, bool>;

namespace detail {
template <class T, class... All>
constexpr DType dtype_among(std::type_identity<std::tuple<All...>>) {
  static_assert((std::is_same_v<T, All> || ...), "no tensor has elements of this type");
  int index = 0;
  (void)((std::is_same_v<T, All> || (++index, false)) || ...);
  return static_cast<DType>(index);
}
}  // namespace detail

/// The DType whose elements are stored as T.
template <class T>
inline constexpr DType dtype_of = detail::dtype_among<T>(std::type_identity<Elements>());
static_assert(dtype_of<bool> == last_enumerator(DType()));

/// Calls `f` with the std::type_identity of what the elements of `dtype` are stored as.
template <std::size_t first = 0, class F>
decltype(auto) visit_element(DType dtype, F&& f) {
  using T = std::tuple_element_t<first, Elements>;
  if constexpr (first + 1 < std::tuple_size_v<Elements>)
    if (dtype != dtype_of<T>) return visit_element<first + 1>(dtype, std::forward<F>(f));
  return std::forward<F>(f)(std::type_identity<T>());
}

}  // namespace troupe
