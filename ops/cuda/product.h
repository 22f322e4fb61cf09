#pragma once
#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace troupe::cuda {

/// Products of row-major matrices: y[i] = a[i] b[i] for each of `batches`, where a is [rows, depth]
/// and b [depth, columns].
struct Product {
  std::int64_t rows = 0, depth = 0, columns = 0;
  bool transposed_a = false, transposed_b = false;  ///< a is [depth, rows], b [columns, depth]
  std::int64_t batches = 1;
  std::int64_t a_step = 0, b_step = 0;  ///< elements from one factor to the next; 0: the same one
  bool adds = false;                    ///< y += a b
};

/// The types of a product. Sums are in f32 for factors of 16 bits, else in the type of the factors.
struct ProductTypes {
  DType factors;  ///< f32, f64, bf16 or f16
  DType results;  ///< of y and the bias: that of the factors or of the sums

  auto operator<=>(const ProductTypes&) const = default;
};

/// Computes them; results are contiguous in y. The tensors have types as in ProductTypes. `bias`
/// [columns], added to each row, may be undefined. The first elements are given, since the factors
/// may begin within a tensor. cuBLASLt does it where it can, f32 in TF32 if the stream allows that.
void multiply(const Stream& stream, const Product& product, const Tensor& a, std::int64_t a_first,
              const Tensor& b, std::int64_t b_first, const Tensor& bias, const Tensor& y,
              std::int64_t y_first);

}  // namespace troupe::cuda
