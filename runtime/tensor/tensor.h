#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "runtime/tensor/allocator.h"
#include "runtime/tensor/device.h"
#include "runtime/tensor/dtype.h"
#include "runtime/tensor/layout.h"
#include "runtime/tensor/shape.h"

namespace troupe {

class DeviceStream;  // runtime/device/device_stream.h

/// A block of device memory with an owner. Shared by the tensors that refer to it.
class Storage {
 public:
  static std::shared_ptr<Storage> allocate(std::size_t bytes, CachingAllocator& allocator);
  /// Memory with another owner (a mapped file, a block of shared memory), which is kept alive.
  static std::shared_ptr<Storage> wrap(void* data, std::size_t bytes, Device device,
                                       std::shared_ptr<const void> owner);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  const CachingAllocator* allocator() const { return allocator_; }  ///< null if it was wrapped
  /// The stream of the last use that note_use has noted. To compare only, since it may have gone.
  std::atomic<const DeviceStream*>& last_user() const { return last_user_; }

 private:
  Storage() = default;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_;
  CachingAllocator* allocator_ = nullptr;
  mutable std::atomic<const DeviceStream*> last_user_ = nullptr;
  std::shared_ptr<const void> owner_;
};

/// Throws Error{bad_shape} for a layout that tensors of this shape cannot have.
void check_layout(Layout layout, const Shape& shape);

/// A view of device memory. Copying a Tensor copies the handle, never the data. A default-made
/// Tensor is undefined; it can only be assigned to. Any thread may copy handles. Actors agree on
/// one writer of the data at a time. Only kernels of its device may access memory of a device other
/// than the CPU; code of the CPU reads a copy (ops/on_device.h).
class Tensor {
 public:
  Tensor() = default;
  static Tensor empty(const Shape& shape, DType dtype, Device device,
                      Layout layout = Layout::row_major);
  /// In the CPU's memory; elsewhere KernelTable::fill writes zeros.
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32,
                      Layout layout = Layout::row_major);
  /// A view of `storage` beginning `offset_bytes` into it; throws if it does not fit, or begins
  /// between elements.
  static Tensor view(std::shared_ptr<Storage> storage, std::size_t offset_bytes, const Shape& shape,
                     DType dtype, Layout layout = Layout::row_major);
  /// In the CPU's memory.
  template <class T>
  static Tensor from(const Shape& shape, std::span<const T> values);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  std::int64_t dim(int axis) const { return shape_.dim(axis); }
  std::int64_t element_count() const { return shape_.element_count(); }
  std::size_t bytes() const { return static_cast<std::size_t>(element_count()) * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Layout layout() const { return layout_; }
  Device device() const;
  const std::shared_ptr<Storage>& storage() const { return storage_; }

  /// The elements in memory order. Throws if T is not the element type or the tensor undefined.
  template <class T>
  T* data() const {
    check_dtype(dtype_of<T>);
    return reinterpret_cast<T*>(raw());
  }
  /// The same for code that runs on the CPU. Throws also if the memory is that of a GPU.
  template <class T>
  std::span<T> elements() const {
    check_read_by_cpu();
    return {data<T>(), static_cast<std::size_t>(element_count())};
  }
  std::byte* raw() const { return storage_ ? storage_->data() + offset_ : nullptr; }

  /// Rows [start, start + count) of the outermost axis; shares the data.
  Tensor narrow(std::int64_t start, std::int64_t count) const;
  /// The same elements under another shape; row-major only, shares the data.
  Tensor reshape(const Shape& shape) const;
  /// The bytes copied to new memory of the same layout; undefined if this is. Throws if the memory
  /// is that of a GPU; KernelTable::copy copies between devices.
  Tensor clone() const;

 private:
  void check_dtype(DType wanted) const;
  void check_read_by_cpu() const;

  Shape shape_;
  DType dtype_ = DType::f32;
  Layout layout_ = Layout::row_major;
  std::size_t offset_ = 0;
  std::shared_ptr<Storage> storage_;
};

template <class T>
Tensor Tensor::from(const Shape& shape, std::span<const T> values) {
  Tensor result = empty(shape, dtype_of<T>, Device::cpu());
  if (static_cast<std::int64_t>(values.size()) != shape.element_count())
    result.reshape(Shape{static_cast<std::int64_t>(values.size())});  // throws with both counts
  std::copy(values.begin(), values.end(), result.data<T>());
  return result;
}

}  // namespace troupe
