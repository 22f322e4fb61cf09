// Kernels of f64 that need no vectors to keep up with the memory, or call the C library for each
// element: the reference's loops, over parts of the tensors that the threads share.

#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/cpu/f64_kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/reference/kernels.h"

namespace troupe::cpu {
namespace {

/// A range of elements in the order of memory.
struct Range {
  std::int64_t begin = 0, end = 0;

  /// Undefined if the tensor is.
  Tensor of(const Tensor& tensor) const {
    if (!tensor.defined()) return {};
    const auto offset = tensor.raw() - tensor.storage()->data();
    return Tensor::view(
        tensor.storage(),
        static_cast<std::size_t>(offset) + static_cast<std::size_t>(begin) * sizeof(double),
        {end - begin}, DType::f64);
  }
  void put(const Tensor& part, const Tensor& to) const {
    std::memcpy(to.data<double>() + begin, part.raw(), part.bytes());
  }
};

/// Calls body(range) for ranges of `step` elements, the last one perhaps shorter.
template <class Body>
void for_ranges(const Stream& stream, std::int64_t count, std::int64_t step, const Body& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, elements_per_thread / step);
  parallel(stream, (count + step - 1) / step, grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      body(Range{i * step, std::min(count, (i + 1) * step)});
  });
}

constexpr std::int64_t cached = 2048;  // elements, a part's copies included

/// `kernel(range)` gives a part of the result.
template <class Kernel>
Tensor by_parts(const Stream& stream, const Tensor& like, const Kernel& kernel) {
  Tensor result = Tensor::empty(like.shape(), DType::f64, stream.device, like.layout());
  for_ranges(stream, like.element_count(), cached,
             [&](const Range& range) { range.put(kernel(range), result); });
  return result;
}

/// The rows of a layer norm that are computed together, by the shape alone.
std::int64_t rows_together(std::int64_t features) {
  return std::max<std::int64_t>(1, cached / std::max<std::int64_t>(1, features));
}

}  // namespace

void accumulate_f64(const Stream& stream, Tensor& a, const Tensor& b) {
  for_ranges(stream, a.element_count(), cached, [&](const Range& range) {
    Tensor sums = range.of(a);
    reference::accumulate(stream, sums, range.of(b));
  });
}

Tensor activate_f64(const Stream& stream, ActivationFunction function, const Tensor& x) {
  return by_parts(stream, x, [&](const Range& range) {
    return reference::activate(stream, function, range.of(x));
  });
}

Tensor activate_backward_f64(const Stream& stream, ActivationFunction function, const Tensor& saved,
                             const Tensor& grad) {
  return by_parts(stream, saved, [&](const Range& range) {
    return reference::activate_backward(stream, function, range.of(saved), range.of(grad));
  });
}

Tensor arithmetic_f64(const Stream& stream, ArithmeticOperation operation, const Tensor& a,
                      const Tensor& b) {
  if (a.shape() != b.shape() || a.layout() != b.layout())
    return reference::arithmetic(stream, operation, a, b);
  return by_parts(stream, a, [&](const Range& range) {
    return reference::arithmetic(stream, operation, range.of(a), range.of(b));
  });
}

void momentum_step_f64(const Stream& stream, const MomentumStep& factors, const Tensor& weights,
                       const Tensor& gradient, const Tensor& momentum, Tensor& new_weights,
                       Tensor& new_momentum) {
  for_ranges(stream, weights.element_count(), cached, [&](const Range& range) {
    Tensor next = range.of(new_weights), next_momentum = range.of(new_momentum);
    reference::momentum_step(stream, factors, range.of(weights), range.of(gradient),
                             range.of(momentum), next, next_momentum);
  });
}

void adam_step_f64(const Stream& stream, const AdamStep& factors, const Tensor& weights,
                   const Tensor& gradient, const Tensor& exp_avg, const Tensor& exp_avg_sq,
                   Tensor& new_weights, Tensor& new_exp_avg, Tensor& new_exp_avg_sq) {
  for_ranges(stream, weights.element_count(), cached, [&](const Range& range) {
    Tensor next = range.of(new_weights), average = range.of(new_exp_avg),
           squares = range.of(new_exp_avg_sq);
    reference::adam_step(stream, factors, range.of(weights), range.of(gradient), range.of(exp_avg),
                         range.of(exp_avg_sq), next, average, squares);
  });
}

LayerNormOutput layer_norm_f64(const Stream& stream, const Tensor& x, const Tensor& weight,
                               const Tensor& bias, std::int64_t features, double epsilon) {
  const std::int64_t rows = features == 0 ? 0 : x.element_count() / features;
  LayerNormOutput output{Tensor::empty(x.shape(), DType::f64, stream.device),
                         Tensor::empty({rows}, DType::f64, stream.device),
                         Tensor::empty({rows}, DType::f64, stream.device)};
  const std::int64_t together = rows_together(features);
  for_ranges(stream, x.element_count(), together * features, [&](const Range& range) {
    const LayerNormOutput part =
        reference::layer_norm(stream, range.of(x), weight, bias, features, epsilon);
    const Range of_rows{range.begin / features, range.end / features};
    range.put(part.y, output.y);
    of_rows.put(part.mean, output.mean);
    of_rows.put(part.inverse_deviation, output.inverse_deviation);
  });
  return output;
}

// The parts' gradients of weight and bias are added up in their order.
NormGradients layer_norm_backward_f64(const Stream& stream, const Tensor& grad, const Tensor& x,
                                      const Tensor& weight, const LayerNormOutput& output,
                                      std::int64_t features) {
  NormGradients gradients{Tensor::empty(x.shape(), DType::f64, stream.device),
                          Tensor::zeros({features}, DType::f64),
                          Tensor::zeros({features}, DType::f64),
                          {}};
  const std::int64_t elements = rows_together(features) * features, count = x.element_count();
  if (count == 0) return gradients;
  std::vector<NormGradients> parts(static_cast<std::size_t>((count + elements - 1) / elements));
  for_ranges(stream, count, elements, [&](const Range& range) {
    const Range of_rows{range.begin / features, range.end / features};
    const LayerNormOutput saved{{}, of_rows.of(output.mean), of_rows.of(output.inverse_deviation)};
    NormGradients& part = parts[static_cast<std::size_t>(range.begin / elements)];
    part = reference::layer_norm_backward(stream, range.of(grad), range.of(x), weight, saved,
                                          features);
    range.put(part.x, gradients.x);
    part.x = {};
  });
  for (const NormGradients& part : parts) {
    reference::accumulate(stream, gradients.weight, part.weight);
    reference::accumulate(stream, gradients.bias, part.bias);
  }
  return gradients;
}

}  // namespace troupe::cpu
