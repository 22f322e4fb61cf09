#include "ops/planned_kernels.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "ops/widened.h"

namespace troupe {
namespace {

DType narrower(DType found, const Tensor& tensor) {
  return tensor.defined() && is_narrow(tensor.dtype()) ? tensor.dtype() : found;
}
template <class T>
DType narrower(DType found, const T&) {
  return found;
}
template <>
DType narrower(DType found, const NormEpilogue& epilogue) {
  return narrower(found, epilogue.residual);
}

void clear(Tensor& tensor) { std::memset(tensor.raw(), 0, tensor.bytes()); }
void clear(const auto&) {}

/// Those of 16 bits in f32, in the CPU's memory.
Tensor on_the_cpu(const Stream& cpu, const Tensor& tensor) {
  const bool narrow = tensor.defined() && is_narrow(tensor.dtype());
  return narrow ? zeros(cpu, tensor.shape(), DType::f32, tensor.layout()) : tensor;
}
Tensor& on_the_cpu(const Stream&, Tensor& written) { return written; }
NormEpilogue on_the_cpu(const Stream& cpu, NormEpilogue epilogue) {
  epilogue.residual = on_the_cpu(cpu, std::as_const(epilogue.residual));
  return epilogue;
}
template <class T>
const T& on_the_cpu(const Stream&, const T& argument) {
  return argument;
}

Tensor made(const Stream& stream, const Tensor& like, DType dtype) {
  return like.defined() ? zeros(stream, like.shape(), dtype, like.layout()) : Tensor();
}
ChannelMoments made(const Stream& stream, const ChannelMoments& like, DType) {
  return {made(stream, like.mean, DType::f32), made(stream, like.variance, DType::f32)};
}
NormGradients made(const Stream& stream, const NormGradients& like, DType dtype) {
  return {made(stream, like.x, dtype), made(stream, like.weight, DType::f32),
          made(stream, like.bias, DType::f32), made(stream, like.residual, dtype)};
}

/// Whether a kernel of ops/cuda computes in f32, with copies of tensors of 16 bits.
template <auto member>
constexpr bool is_widened = false;
#define TROUPE_WIDENED(name) \
  template <>                \
  constexpr bool is_widened<&KernelTable::name> = true;
#include "ops/widened_kernels.inc"

/// Whether its results are in f32 though it has no copies: sums.
template <auto member>
constexpr bool adds_up = false;
template <>
constexpr bool adds_up<&KernelTable::sum_to> = true;
/// Whether it takes tensors of two types, and then copies that of 16 bits.
template <auto member>
constexpr bool is_mixed = false;
template <>
constexpr bool is_mixed<&KernelTable::sum_to> = true;
template <>
constexpr bool is_mixed<&KernelTable::arithmetic> = true;

bool is_f32(const Tensor& tensor) { return tensor.defined() && tensor.dtype() == DType::f32; }
bool is_f32(const auto&) { return false; }

Tensor in_f32(const Stream& stream, const Tensor& tensor) { return widened(stream, tensor); }
Tensor& in_f32(const Stream&, Tensor& written) { return written; }
template <class T>
const T& in_f32(const Stream&, const T& argument) {
  return argument;
}

template <auto member>
struct OfAnyType;
template <class Result, class... Arguments,
          Result (*KernelTable::*member)(const Stream&, Arguments...)>
struct OfAnyType<member> {
  static Result call(const Stream& stream, Arguments... arguments) {
    DType narrow = DType::f32;
    ((narrow = narrower(narrow, arguments)), ...);
    const auto kernel = kernels(Device::cpu(), DType::f32).*member;
    if (narrow == DType::f32) return kernel(stream, std::forward<Arguments>(arguments)...);
    if constexpr (std::is_void_v<Result>) {
      (clear(arguments), ...);
    } else if constexpr (is_widened<member>) {
      return kernel(stream, in_f32(stream, arguments)...);
    } else {
      if (is_mixed<member> && (is_f32(arguments) || ...))
        return kernel(stream, in_f32(stream, arguments)...);
      Stream cpu = stream;
      cpu.device = Device::cpu();
      const Result found = kernel(cpu, on_the_cpu(cpu, arguments)...);
      return made(stream, found, adds_up<member> ? DType::f32 : narrow);
    }
  }
};

template <auto member>
void take(KernelTable& table) {
  if constexpr (requires { &OfAnyType<member>::call; }) table.*member = &OfAnyType<member>::call;
}

/// With what a GPU keeps of a norm.
ChannelMoments channel_moments(const Stream& stream, const Tensor& x, const Tensor& weight,
                               const Tensor& bias, double epsilon, Tensor& mean,
                               Tensor& unbiased_variance) {
  ChannelMoments moments = OfAnyType<&KernelTable::channel_moments>::call(
      stream, x, weight, bias, epsilon, mean, unbiased_variance);
  if (weight.defined()) moments.norm = zeros(stream, {x.dim(1), 2}, DType::f32);
  return moments;
}

}  // namespace

KernelTable planned_kernels(DType dtype) {
  KernelTable table = kernels(Device::cpu(), dtype);
  if (dtype != DType::f32) return table;
#define TROUPE_KERNEL(name, signature) take<&KernelTable::name>(table);
#include "ops/kernel_list.inc"
  table.channel_moments = channel_moments;
  return table;
}

}  // namespace troupe
