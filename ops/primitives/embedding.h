#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/tape.h"

namespace troupe::primitives {

/// Rows of a weight [rows, features] by their indices, as PyTorch's Embedding: [indices...,
/// features], row-major. Indices are i64, or floating-point numbers that are whole; their gradient
/// is zero. The weight is a parameter or, if other operations share it, the second input, such as
/// the value of a Parameter. Saves the indices.
struct Embedding {
  static constexpr std::string_view name = "embedding";

  ParameterIndex weight = {};     ///< not given: the weight is the second input
  std::int64_t padding_row = -1;  ///< a row that gets no gradient; negative: none
  struct Saved {
    Tensor indices;
    Shape weight_shape;
    Layout indices_layout = Layout::row_major;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& indices);
  Tensor forward(const Pass& pass, const Tensor& indices, const Tensor& weights);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
  void weight_gradient(const Pass& pass, const Tensor& grad);
  std::array<ParameterIndex, 1> parameters() const { return {weight}; }
  std::vector<Tensor> saved() const { return {state.indices}; }
};

}  // namespace troupe::primitives
