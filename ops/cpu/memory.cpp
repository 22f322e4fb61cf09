// One pass over memory, for which the reference's loops are fast enough. The threads share those
// that training calls for each weight or activation.

#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/reference/kernels.h"
#include "ops/reference/square_sum.h"

namespace troupe::cpu {
namespace {

/// Whether both are f32 in one order, so that ranges of their memory correspond.
bool ranges_correspond(const Tensor& from, const Tensor& to) {
  return from.dtype() == DType::f32 && to.dtype() == DType::f32 && from.shape() == to.shape() &&
         from.layout() == to.layout();
}

}  // namespace

void copy(const Stream& stream, const Tensor& from, Tensor& to) {
  if (!ranges_correspond(from, to)) return reference::copy(stream, from, to);
  const float* source = from.data<float>();
  auto* target = to.data<float>();
  parallel(stream, to.element_count(), elements_per_thread,
           [&](std::int64_t begin, std::int64_t end) {
             std::copy(source + begin, source + end, target + begin);
           });
}

void fill(const Stream& stream, double value, Tensor& to) {
  if (to.dtype() != DType::f32) return reference::fill(stream, value, to);
  auto* target = to.data<float>();
  parallel(stream, to.element_count(), elements_per_thread,
           [&](std::int64_t begin, std::int64_t end) {
             std::fill(target + begin, target + end, static_cast<float>(value));
           });
}

void scale(const Stream& stream, const Tensor& from, double factor, Tensor& to) {
  if (!ranges_correspond(from, to)) return reference::scale(stream, from, factor, to);
  const float* source = from.data<float>();
  auto* target = to.data<float>();
  parallel(stream, to.element_count(), elements_per_thread,
           [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i)
               target[i] = static_cast<float>(source[i] * factor);
           });
}

void fold(const Stream& stream, const Tensor& observed, double momentum, Tensor& running) {
  reference::fold(stream, observed, momentum, running);
}

// Chunks of a fixed size, so that the order of the sum does not depend on the threads.
void square_sums(const Stream& stream, const std::vector<Tensor>& xs, Tensor& to) {
  constexpr std::int64_t chunk = 2 * elements_per_thread;
  auto* totals = to.data<double>();
  for (const Tensor& x : xs) {
    const std::span<const float> elements = x.elements<float>();
    const std::int64_t count = x.element_count();
    std::vector<double> sums(static_cast<std::size_t>((count + chunk - 1) / chunk));
    parallel(stream, std::ssize(sums), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c)
        sums[static_cast<std::size_t>(c)] = reference::square_sum_of(
            elements.subspan(static_cast<std::size_t>(c * chunk),
                             static_cast<std::size_t>(std::min(chunk, count - c * chunk))));
    });
    *totals++ = std::accumulate(sums.begin(), sums.end(), 0.0);
  }
}

}  // namespace troupe::cpu
