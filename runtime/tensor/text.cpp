#include "runtime/tensor/text.h"

#include <fmt/format.h>

#include <array>

#include "runtime/tensor/cast.h"

namespace troupe {
namespace {

constexpr std::int64_t all_shown = 1000;  // elements; as PyTorch prints
constexpr std::int64_t ends_shown = 3;

using Index = std::array<std::int64_t, Shape::max_rank>;

/// The place in memory of an element.
std::size_t place(const Tensor& tensor, const Index& at) {
  const Shape& shape = tensor.shape();
  if (tensor.layout() == Layout::row_major) {
    std::int64_t place = 0;
    for (int axis = 0; axis < shape.rank(); ++axis)
      place = place * shape[axis] + at[static_cast<std::size_t>(axis)];
    return static_cast<std::size_t>(place);
  }
  const std::int64_t block = tensor.layout() == Layout::nhwc ? shape[1] : 16;
  const std::int64_t outer = at[0] * (shape[1] / block) + at[1] / block;
  return static_cast<std::size_t>(((outer * shape[2] + at[2]) * shape[3] + at[3]) * block +
                                  at[1] % block);
}

template <class T>
std::string number(const Tensor& tensor, std::size_t place) {
  const T value = tensor.elements<T>()[place];
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>)
    return fmt::format("{:.4g}", to_float(value));
  else if constexpr (std::is_floating_point_v<T>)
    return fmt::format("{:.6g}", value);
  else
    return fmt::format("{}", value);
}

std::string number(const Tensor& tensor, std::size_t place) {
  return visit_element(tensor.dtype(), [&](auto element) {
    return number<typename decltype(element)::type>(tensor, place);
  });
}

void append(std::string& text, const Tensor& tensor, int axis, Index& at) {
  if (axis == tensor.rank()) {
    text += number(tensor, place(tensor, at));
    return;
  }
  const std::int64_t size = tensor.shape()[axis];
  const bool shortened = tensor.element_count() > all_shown && size > 2 * ends_shown;
  text += '[';
  for (std::int64_t i = 0; i < size; ++i) {
    if (i > 0) text += ", ";
    if (shortened && i == ends_shown) {
      text += "…, ";
      i = size - ends_shown;
    }
    at[static_cast<std::size_t>(axis)] = i;
    append(text, tensor, axis + 1, at);
  }
  text += ']';
}

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  const std::string kind = fmt::format("{} {}", name_of(tensor.dtype()), to_string(tensor.shape()));
  if (tensor.device() != Device::cpu())
    return fmt::format("{} on {}", kind, to_string(tensor.device()));
  std::string text;
  Index at{};
  if (tensor.element_count() > 0) append(text, tensor, 0, at);
  return text + (text.empty() ? "" : " ") + kind;
}

}  // namespace troupe
