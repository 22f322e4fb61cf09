#pragma once
// Copies of tensors for the device that computes with them, or for the CPU.

#include "ops/kernels.h"

namespace troupe {

/// The tensor itself if it is undefined or lies on the stream's device, else a copy there. Throws
/// Error{unsupported} if it lies on a device that is neither the CPU nor the stream's.
Tensor on_device(const Stream& stream, const Tensor& tensor);
/// The same, and of this floating-point type.
Tensor on_device(const Stream& stream, const Tensor& tensor, DType dtype);

/// The tensor itself if it lies in the CPU's memory, else a copy there. The copy is complete when
/// the stream, which is of the tensor's device, has done all work up to it.
Tensor to_cpu(const Stream& stream, const Tensor& tensor);
/// The same, complete when this returns: waits for the stream, so handlers of actors with streams
/// do not call it.
Tensor on_cpu(const Stream& stream, const Tensor& tensor);

/// A tensor in the CPU's memory, where KernelTable::copy to the device reads it best
/// (Backend::host_allocator).
Tensor empty_on_cpu(const Shape& shape, DType dtype, Device device);

/// Zeroed memory on the stream's device.
Tensor zeros(const Stream& stream, const Shape& shape, DType dtype,
             Layout layout = Layout::row_major);

}  // namespace troupe
