// One pass over memory, for which the reference's loops are fast enough.

#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/reference/kernels.h"
#include "ops/reference/square_sum.h"

namespace troupe::cpu {

void copy(const Stream& stream, const Tensor& from, Tensor& to) {
  reference::copy(stream, from, to);
}

void fill(const Stream& stream, double value, Tensor& to) { reference::fill(stream, value, to); }

void scale(const Stream& stream, const Tensor& from, double factor, Tensor& to) {
  reference::scale(stream, from, factor, to);
}

void fold(const Stream& stream, const Tensor& observed, double momentum, Tensor& running) {
  reference::fold(stream, observed, momentum, running);
}

// Chunks of a fixed size, so that the order of the sum does not depend on the threads.
void square_sum(const Stream& stream, const Tensor& x, Tensor& to) {
  constexpr std::int64_t chunk = 2 * elements_per_thread;
  const std::span<const float> elements = x.elements<float>();
  const std::int64_t count = x.element_count();
  std::vector<double> sums(static_cast<std::size_t>((count + chunk - 1) / chunk));
  parallel(stream, std::ssize(sums), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c)
      sums[static_cast<std::size_t>(c)] = reference::square_sum_of(
          elements.subspan(static_cast<std::size_t>(c * chunk),
                           static_cast<std::size_t>(std::min(chunk, count - c * chunk))));
  });
  *to.data<double>() = std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace troupe::cpu
