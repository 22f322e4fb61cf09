#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "ops/tape.h"

namespace troupe::primitives {

/// z = dropout(relu(norm(x))) + residual or relu(norm(x) + residual), as PyTorch's BatchNorm2d
/// followed by these operations, each of which is optional (S. Ioffe, C. Szegedy, "Batch
/// normalization", ICML 2015). Takes x [N, C, H, W] or [N, C], and the residual as a second input.
/// Dropout goes with relu and without a residual (NormEpilogue); nn::BatchNorm2d records other
/// combinations as several primitives.
///
/// Training normalises with the moments of this micro-batch and writes its mean and unbiased
/// variance to Pass::statistics; evaluation normalises with Pass::buffers. Saves x, z, the residual
/// and the moments, and from one half of the backward pass to the other the gradients.
struct BatchNorm2d {
  static constexpr std::string_view name = "batch_norm2d";

  ParameterIndex weight, bias;
  BufferIndex running_mean, running_variance;
  double epsilon = 1e-5;
  bool relu = false;
  bool residual_first = false;  ///< the residual is added before relu
  double dropout = 0.0;
  std::uint32_t dropout_operation = 0;  ///< operation_id of the dropout's path
  struct Saved {
    Tensor x, z;
    NormEpilogue epilogue;
    ChannelMoments moments;
    NormGradients gradients;
    Layout residual_layout = Layout::row_major;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& x) { return forward(pass, x, {}); }
  Tensor forward(const Pass& pass, const Tensor& x, const Tensor& residual);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
  void weight_gradient(const Pass& pass);
  std::array<ParameterIndex, 2> parameters() const { return {weight, bias}; }
  std::vector<Tensor> saved() const;
};

}  // namespace troupe::primitives
