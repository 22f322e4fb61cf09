#pragma once
// y[i] = f(x[i]...) over arrays of equal length.

#include "ops/cuda/elements.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/numbers.h"

namespace troupe::cuda {

template <int N, class T, class F, class... X>
__global__ void map_kernel(F f, std::int64_t count, T* y, const X*... x) {
  const std::int64_t packs = count / N;
  for (std::int64_t i = first_index(); i < packs; i += grid_threads()) {
    Pack<T, N> out;
    [&](const auto... in) {  // copies, so that each pack is loaded in one access
#pragma unroll
      for (int j = 0; j < N; ++j) out.at[j] = converted<T>(f(computed(in.at[j])...));
    }(reinterpret_cast<const Pack<X, N>*>(x)[i]...);
    reinterpret_cast<Pack<T, N>*>(y)[i] = out;
  }
  for (std::int64_t i = packs * N + first_index(); i < count; i += grid_threads())
    y[i] = converted<T>(f(computed(x[i])...));
}

/// `f` is a function object for the device, of numbers that are computed with. The result may be
/// one of the inputs.
template <class T, class F, class... X>
void map(const Stream& stream, F f, std::int64_t count, T* y, const X*... x) {
  constexpr int width = std::min({pack_width<T>, pack_width<X>...});
  if (count == 0) return;
  if (aligned_for_packs(y, x...))
    Launch(stream, blocks_for((count + width - 1) / width), block_threads)(
        map_kernel<width, T, F, X...>, f, count, y, x...);
  else
    Launch(stream, blocks_for(count), block_threads)(map_kernel<1, T, F, X...>, f, count, y, x...);
}

}  // namespace troupe::cuda
