// Kernels of f64 that are bound by memory or by the C library's functions: the reference's loops,
// over parts of the tensors that the threads share.

#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/cpu/checks.h"
#include "ops/cpu/f64_kernels.h"
#include "ops/cpu/layer_norm.h"
#include "ops/cpu/parallel.h"
#include "ops/reference/kernels.h"

namespace troupe::cpu {
namespace {

constexpr std::int64_t part_elements = 2048;  // in the cache, with the results

/// A range of elements in the order of memory.
struct Range {
  std::int64_t begin = 0, end = 0;

  /// Undefined if the tensor is.
  Tensor of(const Tensor& tensor) const {
    if (!tensor.defined()) return {};
    const auto offset = static_cast<std::size_t>(tensor.raw() - tensor.storage()->data());
    return Tensor::view(tensor.storage(),
                        offset + static_cast<std::size_t>(begin) * size_of(tensor.dtype()),
                        {end - begin}, tensor.dtype());
  }
  void copy_to(const Tensor& to, const Tensor& part) const {
    std::memcpy(to.data<double>() + begin, part.raw(), part.bytes());
  }
};

/// Calls body(range) for ranges of `step` elements, the last one perhaps shorter.
template <class Body>
void for_ranges(const Stream& stream, std::int64_t count, std::int64_t step, const Body& body) {
  if (count == 0) return;
  const std::int64_t grain = std::max<std::int64_t>(1, elements_per_thread / step);
  parallel(stream, (count + step - 1) / step, grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      body(Range{i * step, std::min(count, (i + 1) * step)});
  });
}

/// `kernel(range)` gives a part of the result.
template <class Kernel>
Tensor by_parts(const Stream& stream, const Tensor& like, const Kernel& kernel) {
  Tensor result = Tensor::empty(like.shape(), DType::f64, stream.device, like.layout());
  for_ranges(stream, like.element_count(), part_elements,
             [&](const Range& range) { range.copy_to(result, kernel(range)); });
  return result;
}

Tensor zeroes(const Stream& stream, std::int64_t count) {
  Tensor tensor = Tensor::empty({count}, DType::f64, stream.device);
  std::ranges::fill(tensor.elements<double>(), 0.0);
  return tensor;
}

}  // namespace

void accumulate_f64(const Stream& stream, Tensor& a, const Tensor& b) {
  check_alike("accumulate", a, b, DType::f64);
  for_ranges(stream, a.element_count(), part_elements, [&](const Range& range) {
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
  check_alike("activate_backward", saved, grad, DType::f64);
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

void momentum_step_f64(const Stream& stream, const std::vector<MomentumUpdate>& updates) {
  for (const MomentumUpdate& all : updates)
    for_ranges(stream, all.weights.element_count(), part_elements, [&](const Range& range) {
      reference::momentum_step(stream, {{all.factors, range.of(all.weights), range.of(all.gradient),
                                         range.of(all.momentum), range.of(all.new_weights),
                                         range.of(all.new_momentum)}});
    });
}

void adam_step_f64(const Stream& stream, const std::vector<AdamUpdate>& updates) {
  for (const AdamUpdate& all : updates)
    for_ranges(stream, all.weights.element_count(), part_elements, [&](const Range& range) {
      reference::adam_step(
          stream, {{all.factors, range.of(all.weights), range.of(all.gradient),
                    range.of(all.exp_avg), range.of(all.exp_avg_sq), range.of(all.new_weights),
                    range.of(all.new_exp_avg), range.of(all.new_exp_avg_sq)}});
    });
}

LayerNormOutput layer_norm_f64(const Stream& stream, const Tensor& x, const Tensor& weight,
                               const Tensor& bias, std::int64_t features, double epsilon) {
  const std::int64_t rows = features == 0 ? 0 : x.element_count() / features;
  LayerNormOutput output{Tensor::empty(x.shape(), DType::f64, stream.device),
                         Tensor::empty({rows}, DType::f64, stream.device),
                         Tensor::empty({rows}, DType::f64, stream.device)};
  for_ranges(stream, x.element_count(), rows_of_chunk(features) * features,
             [&](const Range& range) {
               const LayerNormOutput part =
                   reference::layer_norm(stream, range.of(x), weight, bias, features, epsilon);
               const Range of_rows{range.begin / features, range.end / features};
               range.copy_to(output.y, part.y);
               of_rows.copy_to(output.mean, part.mean);
               of_rows.copy_to(output.inverse_deviation, part.inverse_deviation);
             });
  return output;
}

// The chunks' gradients of weight and bias are added up in their order.
NormGradients layer_norm_backward_f64(const Stream& stream, const Tensor& grad, const Tensor& x,
                                      const Tensor& weight, const LayerNormOutput& output,
                                      std::int64_t features) {
  check_alike("layer_norm_backward", x, grad, DType::f64);
  NormGradients gradients{Tensor::empty(x.shape(), DType::f64, stream.device),
                          zeroes(stream, features),
                          zeroes(stream, features),
                          {}};
  const std::int64_t count = x.element_count();
  if (count == 0) return gradients;
  const std::int64_t chunk = rows_of_chunk(features) * features;
  std::vector<NormGradients> parts(static_cast<std::size_t>((count + chunk - 1) / chunk));
  for_ranges(stream, count, chunk, [&](const Range& range) {
    const Range of_rows{range.begin / features, range.end / features};
    NormGradients& part = parts[static_cast<std::size_t>(range.begin / chunk)];
    part = reference::layer_norm_backward(
        stream, range.of(grad), range.of(x), weight,
        {{}, of_rows.of(output.mean), of_rows.of(output.inverse_deviation)}, features);
    range.copy_to(gradients.x, part.x);
    part.x = {};
  });
  for (const NormGradients& part : parts) {
    reference::accumulate(stream, gradients.weight, part.weight);
    reference::accumulate(stream, gradients.bias, part.bias);
  }
  return gradients;
}

}  // namespace troupe::cpu
