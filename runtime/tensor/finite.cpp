#include "runtime/tensor/finite.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>
#include <type_traits>

namespace troupe {
namespace {

/// The bits of a number without its sign, as an integer; not less than `infinite` if it is not
/// finite.
template <class T>
struct Bits;
template <>
struct Bits<float> {
  using Integer = std::uint32_t;
  static constexpr Integer infinite = 0x7f80'0000;
};
template <>
struct Bits<double> {
  using Integer = std::uint64_t;
  static constexpr Integer infinite = 0x7ff0'0000'0000'0000;
};
template <>
struct Bits<Float16> {
  using Integer = std::uint16_t;
  static constexpr Integer infinite = 0x7c00;
};
template <>
struct Bits<BFloat16> {
  using Integer = std::uint16_t;
  static constexpr Integer infinite = 0x7f80;
};

template <class T>
typename Bits<T>::Integer magnitude(const T& number) {
  using Integer = typename Bits<T>::Integer;
  constexpr auto all_but_the_sign = static_cast<Integer>(std::numeric_limits<Integer>::max() >> 1);
  return static_cast<Integer>(std::bit_cast<Integer>(number) & all_but_the_sign);
}

template <class T>
std::optional<std::int64_t> find(std::span<const T> numbers) {
  typename Bits<T>::Integer largest = 0;  // no early end: the loop is vectorised
  for (const T& number : numbers) largest = std::max(largest, magnitude(number));
  if (largest < Bits<T>::infinite) return std::nullopt;
  const auto found = std::ranges::find_if(
      numbers, [](const T& number) { return magnitude(number) >= Bits<T>::infinite; });
  return found - numbers.begin();
}

}  // namespace

std::optional<std::int64_t> first_not_finite(const Tensor& tensor) {
  return visit_element(tensor.dtype(),
                       [&]<class T>(std::type_identity<T>) -> std::optional<std::int64_t> {
                         if constexpr (std::is_integral_v<T>)
                           return std::nullopt;
                         else
                           return find<T>(tensor.elements<T>());
                       });
}

std::string not_finite_text(const Tensor& tensor, std::int64_t element) {
  return visit_element(tensor.dtype(), [&]<class T>(std::type_identity<T>) -> std::string {
    if constexpr (std::is_integral_v<T>) {
      return {};
    } else {
      const T number = tensor.elements<T>()[static_cast<std::size_t>(element)];
      if (magnitude(number) > Bits<T>::infinite) return "nan";
      return std::bit_cast<typename Bits<T>::Integer>(number) == magnitude(number) ? "inf" : "-inf";
    }
  });
}

}  // namespace troupe
