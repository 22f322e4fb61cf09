#pragma once
// Tensors of 16 bits, which mixed precision keeps activations in on devices that have kernels for
// them (Stream::products), and what makes the other kernels take them.

#include <type_traits>
#include <utility>

#include "ops/on_device.h"

namespace troupe {

constexpr bool is_narrow(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

/// What kernels compute with: f32 for tensors of 16 bits.
constexpr DType computed_type(DType stored) { return is_narrow(stored) ? DType::f32 : stored; }

/// The tensor in f32 if its elements have 16 bits, else itself.
inline Tensor widened(const Stream& stream, const Tensor& tensor) {
  return tensor.defined() ? on_device(stream, tensor, computed_type(tensor.dtype())) : tensor;
}

namespace detail {
template <class Argument>
decltype(auto) widened_argument(const Stream& stream, Argument&& argument) {
  if constexpr (std::is_same_v<Argument&&, const Tensor&>)
    return widened(stream, argument);
  else
    return std::forward<Argument>(argument);
}
template <auto kernel>
struct Widened;
template <class Result, class... Arguments, Result (*kernel)(const Stream&, Arguments...)>
struct Widened<kernel> {
  static Result call(const Stream& stream, Arguments... arguments) {
    return kernel(stream,
                  widened_argument<Arguments>(stream, std::forward<Arguments>(arguments))...);
  }
};
}  // namespace detail

/// The kernel, for tensors that may have 16 bits: it reads them in f32, and its results are f32.
template <auto kernel>
inline constexpr auto widening = &detail::Widened<kernel>::call;

}  // namespace troupe
