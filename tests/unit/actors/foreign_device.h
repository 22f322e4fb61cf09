#pragma once
#include "runtime/tensor/device.h"

namespace troupe::testing {

/// A device whose memory only kernels can touch (guarded_memory.h). It computes with the CPU's
/// kernels, and so gives the CPU's bits. A kernel that gets a tensor of the CPU throws an error
/// that names the kernel and the argument.
Device foreign_device();

}  // namespace troupe::testing
