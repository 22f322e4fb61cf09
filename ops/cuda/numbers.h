#pragma once
// Numbers of 16 bits in kernels, which compute in f32.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "ops/cuda/elements.h"
#include "ops/cuda/launch.h"

namespace troupe::cuda {

/// A number in another type: the nearest one, of two the even one; infinity beyond the largest.
template <class To, class From>
__device__ To converted(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    const __nv_bfloat16_raw raw = __float2bfloat16_rn(x);
    return {raw.x};
  } else if constexpr (std::is_same_v<To, Float16>) {
    const __half_raw raw = __float2half_rn(x);
    return {raw.x};
  } else if constexpr (std::is_same_v<From, BFloat16>) {
    __nv_bfloat16_raw raw;
    raw.x = x.bits;
    return __bfloat162float(__nv_bfloat16(raw));
  } else if constexpr (std::is_same_v<From, Float16>) {
    __half_raw raw;
    raw.x = x.bits;
    return __half2float(__half(raw));
  } else {
    return static_cast<To>(x);
  }
}

/// Calls `f` with a number of the type of factors, f32, f64, bf16 or f16, and with one of the type
/// that their products are summed in: f32 for those of 16 bits. Throws Error{unsupported} for
/// others.
template <class F>
decltype(auto) visit_factors(DType factors, F&& f) {
  if (factors == DType::bf16) return f(BFloat16(), float());
  if (factors == DType::f16) return f(Float16(), float());
  return visit_float(factors, [&]<class T>(T) { return f(T(), T()); });
}

}  // namespace troupe::cuda
