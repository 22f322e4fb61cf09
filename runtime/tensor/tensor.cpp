#include "runtime/tensor/tensor.h"

#include <fmt/format.h>

#include <cstring>

#include "runtime/error.h"
#include "runtime/tensor/backend.h"

namespace troupe {

std::shared_ptr<Storage> Storage::allocate(std::size_t bytes, CachingAllocator& allocator) {
  std::shared_ptr<Storage> storage(new Storage);
  storage->data_ = static_cast<std::byte*>(allocator.allocate(bytes));
  storage->bytes_ = bytes;
  storage->device_ = allocator.device();
  storage->allocator_ = &allocator;
  return storage;
}

std::shared_ptr<Storage> Storage::wrap(void* data, std::size_t bytes, Device device,
                                       std::shared_ptr<const void> owner) {
  std::shared_ptr<Storage> storage(new Storage);
  storage->data_ = static_cast<std::byte*>(data);
  storage->bytes_ = bytes;
  storage->device_ = device;
  storage->owner_ = std::move(owner);
  return storage;
}

Storage::~Storage() {
  if (allocator_) allocator_->release(data_, bytes_);
}

void check_layout(Layout layout, const Shape& shape) {
  if (layout != Layout::row_major && shape.rank() != 4)
    throw Error(ErrorCode::bad_shape, fmt::format("layout {} needs a shape (N, C, H, W), not {}",
                                                  name_of(layout), to_string(shape)));
  if (layout == Layout::nchw16c && shape[1] % 16 != 0)
    throw Error(ErrorCode::bad_shape,
                fmt::format("layout nchw16c needs a multiple of 16 channels, not {}", shape[1]),
                "keep such tensors in nhwc");
}

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device, Layout layout) {
  const std::size_t bytes = static_cast<std::size_t>(shape.element_count()) * size_of(dtype);
  return view(Storage::allocate(bytes, CachingAllocator::of(device)), 0, shape, dtype, layout);
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Layout layout) {
  Tensor result = empty(shape, dtype, Device::cpu(), layout);
  std::memset(result.raw(), 0, result.bytes());
  return result;
}

Tensor Tensor::view(std::shared_ptr<Storage> storage, std::size_t offset_bytes, const Shape& shape,
                    DType dtype, Layout layout) {
  if (!storage)
    throw Error(ErrorCode::internal,
                fmt::format("view: {} {} without a storage", name_of(dtype), to_string(shape)));
  if (offset_bytes % size_of(dtype) != 0)
    throw Error(ErrorCode::bad_shape,
                fmt::format("view: {} {} at byte {}, not a multiple of the element size {}",
                            name_of(dtype), to_string(shape), offset_bytes, size_of(dtype)));
  const std::size_t bytes = static_cast<std::size_t>(shape.element_count()) * size_of(dtype);
  if (offset_bytes > storage->bytes() || bytes > storage->bytes() - offset_bytes)
    throw Error(
        ErrorCode::bad_shape,
        fmt::format("view: {} {} at byte {} needs {} bytes, the storage has {}", name_of(dtype),
                    to_string(shape), offset_bytes, bytes, storage->bytes()));
  check_layout(layout, shape);
  Tensor result;
  result.shape_ = shape;
  result.dtype_ = dtype;
  result.layout_ = layout;
  result.offset_ = offset_bytes;
  result.storage_ = std::move(storage);
  return result;
}

Device Tensor::device() const { return storage_ ? storage_->device() : Device{}; }

Tensor Tensor::narrow(std::int64_t start, std::int64_t count) const {
  // Compared so that no sum can overflow.
  if (start < 0 || count < 0 || start > dim(0) || count > dim(0) - start)
    throw Error(ErrorCode::bad_shape,
                fmt::format("narrow: {} rows from {} on, of {}", count, start, to_string(shape_)));
  const std::size_t row_bytes = dim(0) == 0 ? 0 : bytes() / static_cast<std::size_t>(dim(0));
  Tensor result = *this;
  result.shape_ = shape_.with_outer(count);
  result.offset_ += static_cast<std::size_t>(start) * row_bytes;
  return result;
}

Tensor Tensor::reshape(const Shape& shape) const {
  if (shape.element_count() != element_count() || layout_ != Layout::row_major)
    throw Error(
        ErrorCode::bad_shape,
        fmt::format("reshape: {} elements of {} ({}) into {} of {}", element_count(),
                    to_string(shape_), name_of(layout_), shape.element_count(), to_string(shape)),
        "the counts must agree and the layout be row_major");
  Tensor result = *this;
  result.shape_ = shape;
  return result;
}

Tensor Tensor::clone() const {
  if (!defined()) return {};
  check_read_by_cpu();
  Tensor result = empty(shape_, dtype_, device(), layout_);
  std::memcpy(result.raw(), raw(), bytes());
  return result;
}

void Tensor::check_dtype(DType wanted) const {
  if (!defined())
    throw Error(ErrorCode::internal,
                fmt::format("an undefined tensor was read as {}", name_of(wanted)));
  if (wanted != dtype_)
    throw Error(ErrorCode::bad_shape,
                fmt::format("a tensor of {} was read as {}", name_of(dtype_), name_of(wanted)));
}

void Tensor::check_read_by_cpu() const {
  const Backend* const backend = device().backend;
  if (backend && !backend->in_cpu_memory)
    throw Error(ErrorCode::unsupported,
                fmt::format("the CPU cannot read a tensor of {}", to_string(device())),
                "read a copy: on_cpu(stream, tensor) of ops/on_device.h");
}

}  // namespace troupe
