#pragma once
// The kernels of NVIDIA GPUs, for f64, f32, bf16 and f16: cuDNN for convolutions but those of
// f64, cuBLASLt for matrix products, kernels of this folder for the rest. A kernel of
// ops/kernel_list.inc is the function of that name in this namespace; results depend on shapes,
// layouts and whether tensors begin at multiples of 16 bytes. Layouts are row-major and nhwc.

#include "ops/kernels.h"

namespace troupe::cuda {

#define TROUPE_KERNEL(name, signature) std::type_identity_t<signature> name;
#include "ops/kernel_list.inc"

}  // namespace troupe::cuda
