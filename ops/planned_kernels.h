#pragma once
#include "ops/kernels.h"

namespace troupe {

/// The kernels of a planned device for tensors of this type, f32 or f64: those of the CPU. With f32
/// also for tensors of 16 bits, as those of ops/cuda: results have the same shapes, layouts and
/// types, but are zeroes.
KernelTable planned_kernels(DType dtype);

}  // namespace troupe
