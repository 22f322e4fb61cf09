#include "ops/graph/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/error.h"

namespace troupe::graph {
namespace {

constexpr std::int64_t most_elements = std::int64_t{1} << 48;

constexpr std::array names{std::string_view("convolution"),
                           std::string_view("linear"),
                           std::string_view("batch_norm"),
                           std::string_view("layer_norm"),
                           std::string_view("embedding"),
                           std::string_view("relu"),
                           std::string_view("activation"),
                           std::string_view("clamp"),
                           std::string_view("arithmetic"),
                           std::string_view("affine"),
                           std::string_view("matmul"),
                           std::string_view("attention"),
                           std::string_view("softmax"),
                           std::string_view("reduce"),
                           std::string_view("max_pool"),
                           std::string_view("average_pool"),
                           std::string_view("adaptive_average_pool"),
                           std::string_view("reshape"),
                           std::string_view("expand"),
                           std::string_view("permute"),
                           std::string_view("slice"),
                           std::string_view("concatenate"),
                           std::string_view("dropout")};
static_assert(names.size() == std::variant_size_v<Operator>);

constexpr std::array<std::string_view, 7> activation_names{
    "sigmoid", "tanh", "silu", "gelu", "gelu_tanh", "hardsigmoid", "hardswish"};
static_assert(activation_names.size() ==
              static_cast<std::size_t>(ActivationFunction::hardswish) + 1);
constexpr std::array<std::string_view, 4> arithmetic_names{"add", "subtract", "multiply", "divide"};

std::string to_string(const Size& size) {
  if (size.per_sample == 0) return std::to_string(size.fixed);
  const std::string batch =
      size.per_sample == 1 ? "batch" : fmt::format("{}*batch", size.per_sample);
  return size.fixed == 0 ? batch : fmt::format("{} + {}", batch, size.fixed);
}

std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) || result > most_elements || result < -most_elements)
    throw Error(ErrorCode::bad_shape, fmt::format("a size is {} times {}", a, b),
                "no tensor is that large; the file is damaged");
  return result;
}

}  // namespace

std::string_view name_of(const Operator& operation) {
  if (const auto* activate = std::get_if<Activate>(&operation))
    return activation_names[static_cast<std::size_t>(activate->function)];
  if (const auto* arithmetic = std::get_if<Arithmetic>(&operation))
    return arithmetic_names[static_cast<std::size_t>(arithmetic->operation)];
  if (const auto* softmax = std::get_if<Softmax>(&operation))
    return softmax->logarithm ? "log_softmax" : "softmax";
  if (const auto* reduce = std::get_if<Reduce>(&operation)) return reduce->mean ? "mean" : "sum";
  return names[operation.index()];
}

std::string to_string(const Sizes& sizes) {
  std::string text = "[";
  for (const Size& size : sizes) text += (text.size() > 1 ? ", " : "") + to_string(size);
  return text + "]";
}

bool has_batch_axis(const Sizes& sizes) {
  return !sizes.empty() && sizes[0] == Size{.fixed = 0, .per_sample = 1} &&
         std::all_of(sizes.begin() + 1, sizes.end(), is_fixed);
}

Sizes sizes_of(const Shape& shape) {
  Sizes sizes;
  for (const std::int64_t dim : shape.dims()) sizes.push_back(fixed(dim));
  return sizes;
}

std::optional<Sizes> broadcast(std::span<const Size> a, std::span<const Size> b) {
  if (a.size() < b.size()) return broadcast(b, a);
  Sizes result(a.begin(), a.end());
  for (std::size_t i = 0; i < b.size(); ++i) {
    Size& size = result[a.size() - b.size() + i];
    if (size != b[i] && size != fixed(1) && b[i] != fixed(1)) return std::nullopt;
    if (size == fixed(1)) size = b[i];
  }
  return result;
}

bool can_exist(const Sizes& sizes) {
  std::int64_t elements = 1;
  for (const Size& size : sizes) {
    const std::int64_t least = is_fixed(size) ? 0 : -most_elements;  // [batch - 1] can exist
    const std::int64_t largest = std::max({std::int64_t{1}, size.fixed, size.per_sample});
    if (size.fixed < least || size.per_sample < 0 || largest > most_elements / elements)
      return false;
    elements *= largest;
  }
  return true;
}

Size product(std::span<const Size> sizes) {
  Size result = fixed(1);
  for (const Size& size : sizes) {
    if (result.per_sample != 0 && size.per_sample != 0)
      throw Error(ErrorCode::bad_shape,
                  fmt::format("two axes of {} grow with the batch",
                              to_string(Sizes(sizes.begin(), sizes.end()))),
                  "export the model with one dynamic size, that of the batch");
    result = {times(result.fixed, size.fixed),
              times(result.fixed, size.per_sample) + times(result.per_sample, size.fixed)};
  }
  return result;
}

Sizes resolved(Sizes sizes, const Sizes& from) {
  const auto misfit = [&] {
    return Error(ErrorCode::bad_shape,
                 fmt::format("{} cannot be reshaped to {}", to_string(from), to_string(sizes)),
                 "the file is damaged or was exported for another size of the samples");
  };
  const Size all = product(from);
  const auto open = std::ranges::find(sizes, fixed(-1));
  if (open != sizes.end()) {
    *open = fixed(1);
    const Size known = product(sizes);
    const auto divided = [&](std::int64_t by) {
      if (by <= 0 || all.fixed % by != 0 || all.per_sample % by != 0) throw misfit();
      return Size{all.fixed / by, all.per_sample / by};
    };
    if (known.per_sample == 0) {
      *open = divided(known.fixed);
    } else {  // the batch cancels
      const bool cancels = known.fixed == 0 && all.fixed == 0;
      if (!cancels || known.per_sample < 0 || all.per_sample % known.per_sample != 0)
        throw misfit();
      *open = fixed(all.per_sample / known.per_sample);
    }
  }
  const bool negative = std::ranges::any_of(
      sizes, [](const Size& size) { return size.fixed < 0 || size.per_sample < 0; });
  if (negative || product(sizes) != all) throw misfit();
  return sizes;
}

Shape shape_for(const Sizes& sizes, std::int64_t samples) {
  std::vector<std::int64_t> dims;
  for (const Size& size : sizes) dims.push_back(size.of(samples));
  return Shape(std::span<const std::int64_t>(dims));
}

int axis_of(std::int64_t axis, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  if (axis < -count || axis >= count)
    throw Error(ErrorCode::bad_shape, fmt::format("axis {} of a tensor of rank {}", axis, rank),
                "the file is damaged");
  return static_cast<int>(axis < 0 ? axis + count : axis);
}

}  // namespace troupe::graph
