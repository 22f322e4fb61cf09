#include <array>

#include "ops/reference/kernels.h"

namespace troupe::reference {
namespace {

/// Calls visit(place in a, place in b) for the elements of a space, in their order.
template <class Visit>
void for_places(const Shape& space, const ElementPlaces& a, const ElementPlaces& b,
                const Visit& visit) {
  std::array<std::int64_t, Shape::max_rank> index{};
  std::int64_t at_a = a.offset, at_b = b.offset;
  for (std::int64_t e = space.element_count(); e > 0; --e) {
    visit(at_a, at_b);
    for (int axis = space.rank() - 1; axis >= 0; --axis) {
      const auto i = static_cast<std::size_t>(axis);
      at_a += a.strides[i], at_b += b.strides[i];
      if (++index[i] < space[axis]) break;
      at_a -= index[i] * a.strides[i], at_b -= index[i] * b.strides[i];
      index[i] = 0;
    }
  }
}

template <class T>
void copy_as(const Shape& space, const Tensor& from, const ElementPlaces& from_places, Tensor& to,
             const ElementPlaces& to_places) {
  const T* source = from.data<T>();
  T* target = to.data<T>();
  for_places(space, from_places, to_places,
             [&](std::int64_t a, std::int64_t b) { target[b] = source[a]; });
}

}  // namespace

void copy_elements(const Stream&, const Shape& space, const Tensor& from,
                   const ElementPlaces& from_places, Tensor& to, const ElementPlaces& to_places) {
  if (from.dtype() == DType::i64)
    return copy_as<std::int64_t>(space, from, from_places, to, to_places);
  copy_as<double>(space, from, from_places, to, to_places);
}

}  // namespace troupe::reference
