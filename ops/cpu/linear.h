#pragma once
#include <memory>

#include "ops/kernels.h"

namespace troupe::cpu {

/// f32 linear layer by oneDNN, with primitives cached as in make_convolution. Weights and their
/// gradient stay row-major: nothing is reordered. Results are a function of the inputs and
/// `stream.threads` alone. Throws Error{bad_shape} for tensors that do not fit.
std::unique_ptr<LayerKernel> make_linear(const LinearOptions& options);

}  // namespace troupe::cpu
