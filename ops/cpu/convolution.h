#pragma once
#include <memory>

#include "ops/kernels.h"

namespace troupe::cpu {

/// f32 convolution by oneDNN. Algorithm and layouts follow convolution_rule.h; an input in another
/// layout is reordered, not refused. Primitives are compiled once for each input shape and number
/// of threads; the weights are brought into the primitives' order once a version. The kernel reads
/// the weights it was given until it is given others. Results are a function of the inputs and
/// `stream.threads` alone. Throws Error{bad_shape} for tensors that do not fit.
std::unique_ptr<LayerKernel> make_convolution(const ConvolutionOptions& options);

}  // namespace troupe::cpu
