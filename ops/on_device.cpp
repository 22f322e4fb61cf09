#include "ops/on_device.h"

#include <fmt/format.h>

#include "runtime/device/device_stream.h"
#include "runtime/error.h"
#include "runtime/tensor/backend.h"
#include "runtime/tensor/out_of_memory.h"

namespace troupe {
namespace {

// KernelTable::copy takes tensors of any type, so that any table of a device will do.
Tensor copied(const Stream& stream, const Tensor& tensor, DType dtype, Device to) {
  if (tensor.device() != Device::cpu() && tensor.device() != stream.device)
    throw Error(ErrorCode::unsupported,
                fmt::format("a tensor on {} cannot be copied to {} by a stream of {}",
                            to_string(tensor.device()), to_string(to), to_string(stream.device)),
                fmt::format("copy it to the CPU (to_cpu) with a stream of {} first",
                            to_string(tensor.device())));
  Tensor result = Tensor::empty(tensor.shape(), dtype, to, tensor.layout());
  kernels(stream.device, DType::f32).copy(stream, tensor, result);
  return result;
}

}  // namespace

Tensor on_device(const Stream& stream, const Tensor& tensor) {
  return on_device(stream, tensor, tensor.dtype());
}

Tensor on_device(const Stream& stream, const Tensor& tensor, DType dtype) {
  if (!tensor.defined() || (tensor.device() == stream.device && tensor.dtype() == dtype))
    return tensor;
  return copied(stream, tensor, dtype, stream.device);
}

Tensor to_cpu(const Stream& stream, const Tensor& tensor) {
  if (!tensor.defined() || tensor.device() == Device::cpu()) return tensor;
  return copied(stream, tensor, tensor.dtype(), Device::cpu());
}

Tensor on_cpu(const Stream& stream, const Tensor& tensor) {
  Tensor copy = to_cpu(stream, tensor);
  synchronize(stream);
  return copy;
}

Tensor empty_on_cpu(const Shape& shape, DType dtype, Device device) {
  if (!device.backend || !device.backend->host_allocator)
    return Tensor::empty(shape, dtype, Device::cpu());
  const std::size_t bytes = static_cast<std::size_t>(shape.element_count()) * size_of(dtype);
  try {
    return Tensor::view(Storage::allocate(bytes, device.backend->host_allocator(device.index)), 0,
                        shape, dtype);
  } catch (const OutOfMemory&) {  // other memory is copied by way of pinned memory
    return Tensor::empty(shape, dtype, Device::cpu());
  }
}

Tensor zeros(const Stream& stream, const Shape& shape, DType dtype, Layout layout) {
  Tensor result = Tensor::empty(shape, dtype, stream.device, layout);
  kernels(stream.device, dtype).fill(stream, 0.0, result);
  return result;
}

}  // namespace troupe
