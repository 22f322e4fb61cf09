#pragma once
#include <cstddef>
#include <set>

#include "runtime/tensor/tensor.h"

namespace troupe::cuda {

/// Working memory of a kernel, from the device's allocator: it is free again once the host has
/// given the kernel to the stream, since later kernels of other streams wait (BlockUses). Undefined
/// for 0 bytes.
Tensor workspace(const Stream& stream, std::size_t bytes);

/// The sizes of all workspaces since the last call.
std::set<std::size_t> take_workspace_sizes();

}  // namespace troupe::cuda
