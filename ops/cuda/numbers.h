#pragma once
// Numbers of 16 bits in kernels, which compute in f32.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <type_traits>

#include "ops/cuda/convert.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/launch.h"

namespace troupe::cuda {

/// A number in another type: rounded to nearest, ties to even; overflow gives infinity.
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

/// What kernels compute with numbers that are stored as S.
template <class S>
using Computed = std::conditional_t<sizeof(S) == 2, float, S>;

template <class S>
__device__ Computed<S> computed(S x) {
  return converted<Computed<S>>(x);
}

/// N numbers from place e on, as they are stored. Several loads wait for memory together if none is
/// converted before the last.
template <class S, int N>
__device__ Pack<S, N> load_stored(const S* from, std::int64_t e) {
  return *reinterpret_cast<const Pack<S, N>*>(from + e);
}
/// The same, to compute with.
template <class S, int N>
__device__ Pack<Computed<S>, N> load_pack(const S* from, std::int64_t e) {
  const Pack<S, N> stored = load_stored<S, N>(from, e);
  Pack<Computed<S>, N> pack;
#pragma unroll
  for (int j = 0; j < N; ++j) pack.at[j] = computed(stored.at[j]);
  return pack;
}
template <class S, int N>
__device__ Pack<S, N> as_stored(const Pack<Computed<S>, N>& pack) {
  Pack<S, N> stored;
#pragma unroll
  for (int j = 0; j < N; ++j) stored.at[j] = converted<S>(pack.at[j]);
  return stored;
}
template <class S, int N>
__device__ void store_pack(S* to, std::int64_t e, const Pack<Computed<S>, N>& pack) {
  *reinterpret_cast<Pack<S, N>*>(to + e) = as_stored<S, N>(pack);
}
/// The same in one access, where nvcc would store parts of the pack as soon as they are known.
template <class S, int N>
__device__ void store_whole(S* to, std::int64_t e, const Pack<Computed<S>, N>& pack) {
  if constexpr (sizeof(S) * N == sizeof(uint4)) {
    const Pack<S, N> stored = as_stored<S, N>(pack);
    uint4 whole;
    std::memcpy(&whole, &stored, sizeof whole);
    __stwb(reinterpret_cast<uint4*>(to + e), whole);
  } else {
    store_pack<S, N>(to, e, pack);
  }
}

/// Calls `f` with a number of the type that is stored, f32, f64, bf16 or f16, and with one of the
/// type that is computed with. Throws Error{unsupported} for others.
template <class F>
decltype(auto) visit_stored(DType stored, F&& f) {
  if (stored == DType::bf16) return f(BFloat16(), float());
  if (stored == DType::f16) return f(Float16(), float());
  return visit_float(stored, [&]<class T>(T) { return f(T(), T()); });
}

/// Calls `f` with numbers of both types, of which one may be f32 and the other any floating-point
/// type, or both the same. Throws Error{unsupported} for others: f64 would be rounded twice on its
/// way to 16 bits.
template <class F>
void visit_conversion(DType from, DType to, F&& f) {
  visit_stored(from, [&]<class From>(From, auto) {
    visit_stored(to, [&]<class To>(To, auto) {
      if constexpr (std::is_same_v<From, To> || std::is_same_v<From, float> ||
                    std::is_same_v<To, float>)
        f(From(), To());
      else
        check_f32(from == DType::f64 ? to : from);
    });
  });
}

}  // namespace troupe::cuda
