#include "ops/reference/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/reference/kernels.h"
#include "runtime/error.h"

namespace troupe::reference {
namespace {

/// The first axis of indices counts the samples.
[[noreturn]] void refuse(const Tensor& indices, std::size_t at, const std::string& index,
                         std::int64_t rows) {
  const std::int64_t samples = indices.rank() == 0 ? 1 : indices.dim(0);
  const auto per_sample = static_cast<std::size_t>(indices.element_count() / samples);
  throw Error(
      ErrorCode::bad_shape,
      fmt::format("embedding: index {} at place {} of sample {} of the micro-batch, but the weight "
                  "has {} rows",
                  index, at % per_sample, at / per_sample, rows),
      fmt::format("indices are whole numbers from 0 to {}; {}", rows - 1,
                  indices.dtype() == DType::i64
                      ? "correct the samples, or give the embedding more rows"
                      : "samples of u8 are pixels and are normalised, so store indices as i64"));
}

template <class Number>
std::vector<std::int64_t> checked_indices(const Tensor& indices, std::int64_t rows) {
  std::vector<std::int64_t> result;
  result.reserve(static_cast<std::size_t>(indices.element_count()));
  for (const Number index : indices.elements<Number>()) {
    // Written so that NaN is refused.
    const bool inside = index >= 0 && index < static_cast<Number>(rows);
    if (!inside || static_cast<Number>(static_cast<std::int64_t>(index)) != index)
      refuse(indices, result.size(), fmt::format("{}", index), rows);
    result.push_back(static_cast<std::int64_t>(index));
  }
  return result;
}

}  // namespace

std::vector<std::int64_t> row_indices(const Tensor& indices, std::int64_t rows) {
  if (indices.dtype() == DType::i64) return checked_indices<std::int64_t>(indices, rows);
  if (indices.dtype() == DType::f64) return checked_indices<double>(indices, rows);
  return checked_indices<float>(indices, rows);
}

Shape embedding_shape(const Shape& weight, const Shape& indices) {
  std::vector<std::int64_t> sizes(indices.dims().begin(), indices.dims().end());
  sizes.push_back(weight[1]);
  return Shape(std::span<const std::int64_t>(sizes));
}

Tensor embedding(const Stream&, const Tensor& weight, const Tensor& indices) {
  const std::int64_t features = weight.dim(1);
  Tensor y =
      Tensor::empty(embedding_shape(weight.shape(), indices.shape()), DType::f64, weight.device());
  auto* to = y.data<double>();
  for (const std::int64_t row : row_indices(indices, weight.dim(0)))
    to = std::copy_n(weight.data<double>() + row * features, features, to);
  return y;
}

void embedding_backward(const Stream&, const Tensor& grad, const Tensor& indices,
                        Tensor& weight_grad) {
  const std::int64_t features = weight_grad.dim(1);
  std::ranges::fill(weight_grad.elements<double>(), 0.0);
  const double* from = grad.data<double>();
  for (const std::int64_t row : row_indices(indices, weight_grad.dim(0)))
    for (std::int64_t f = 0; f < features; ++f)
      weight_grad.data<double>()[row * features + f] += *from++;
}

}  // namespace troupe::reference
