#pragma once
#include <algorithm>
#include <vector>

#include "ops/outer_axes.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// The sizes of an attention's tensors: `outer` matrices of each.
struct AttentionSizes {
  std::int64_t outer, tokens, keys, features, outputs;

  AttentionSizes(const Tensor& q, const Tensor& k, const Tensor& v)
      : outer(outer_count(q.shape())),
        tokens(q.dim(-2)),
        keys(k.dim(-2)),
        features(q.dim(-1)),
        outputs(v.dim(-1)) {}

  /// Of the result.
  static Shape y_shape(const Tensor& q, const Tensor& v) {
    std::vector<std::int64_t> sizes(q.shape().dims().begin(), q.shape().dims().end());
    sizes.back() = v.dim(-1);
    return Shape(std::span<const std::int64_t>(sizes));
  }

  /// The number of keys that a token sees, the first ones.
  std::int64_t seen(bool causal, std::int64_t token) const {
    return causal ? std::min(keys, token + 1) : keys;
  }
};

/// Where a mask's numbers for a token lie.
template <class T>
struct MaskRow {
  const T* first = nullptr;
  std::int64_t stride = 0;  ///< 0: one number for all keys
};

/// A mask that is broadcast to [..., tokens, keys]. Undefined: no rows may be asked for.
template <class T>
class MaskRows {
 public:
  MaskRows(const Tensor& mask, const Shape& q) {
    if (!mask.defined()) return;
    data_ = mask.data<T>();
    // The matrix of the mask for each of the outer ones.
    Shape whole = q;
    for (const MatrixProduct& pair : matrix_products(q, as_matrices(mask.shape()), whole))
      matrices_.push_back(pair.b);
    const auto last = [&](int axis) { return axis < mask.rank() ? mask.dim(-1 - axis) : 1; };
    key_stride_ = last(0) == 1 ? 0 : 1;
    token_stride_ = last(1) == 1 ? 0 : last(0);
    matrix_ = last(0) * last(1);
  }

  bool defined() const { return data_ != nullptr; }
  MaskRow<T> row(std::int64_t outer, std::int64_t token) const {
    return {data_ + matrices_[static_cast<std::size_t>(outer)] * matrix_ + token * token_stride_,
            key_stride_};
  }

 private:
  static Shape as_matrices(const Shape& mask) {
    if (mask.rank() >= 2) return mask;
    return mask.rank() == 1 ? Shape{1, mask[0]} : Shape{1, 1};
  }

  const T* data_ = nullptr;
  std::vector<std::int64_t> matrices_;
  std::int64_t key_stride_ = 0, token_stride_ = 0, matrix_ = 1;
};

}  // namespace troupe
