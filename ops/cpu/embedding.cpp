#include "ops/reference/embedding.h"

#include <algorithm>

#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"

namespace troupe::cpu {

Tensor embedding(const Stream& stream, const Tensor& weight, const Tensor& indices) {
  const std::int64_t features = weight.dim(1);
  const auto rows = reference::row_indices(indices, weight.dim(0));
  Tensor y = Tensor::empty(reference::embedding_shape(weight.shape(), indices.shape()), DType::f32,
                           stream.device);
  const float* from = weight.data<float>();
  auto* to = y.data<float>();
  const std::int64_t grain = elements_per_thread / std::max<std::int64_t>(1, features) + 1;
  parallel(stream, std::ssize(rows), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::copy_n(from + rows[static_cast<std::size_t>(i)] * features, features, to + i * features);
  });
  return y;
}

// Threads share the features, so that each sum is in the order of the indices.
void embedding_backward(const Stream& stream, const Tensor& grad, const Tensor& indices,
                        Tensor& weight_grad) {
  const std::int64_t all = weight_grad.dim(0), features = weight_grad.dim(1);
  const auto rows = reference::row_indices(indices, all);
  const float* from = grad.data<float>();
  auto* to = weight_grad.data<float>();
  constexpr std::int64_t line = 16;  // of a cache
  const std::int64_t touched = std::max<std::int64_t>(1, (all + std::ssize(rows)) * line);
  const std::int64_t grain = (elements_per_thread + touched - 1) / touched;
  parallel(stream, (features + line - 1) / line, grain, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t begin = first * line, end = std::min(features, last * line);
    for (std::int64_t row = 0; row < all; ++row)
      std::fill(to + row * features + begin, to + row * features + end, 0.0f);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const float* slopes = from + static_cast<std::int64_t>(i) * features;
      float* sums = to + rows[i] * features;
      for (std::int64_t f = begin; f < end; ++f) sums[f] += slopes[f];
    }
  });
}

}  // namespace troupe::cpu
