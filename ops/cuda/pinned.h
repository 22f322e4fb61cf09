#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "runtime/tensor/tensor.h"

namespace troupe::cuda {

/// A block of the CPU's memory that the device copies from and to while the host goes on. Blocks
/// are kept for reuse, because pinning and unpinning memory synchronise the device. Their sizes are
/// powers of two from 4 KiB; of each size, the pool keeps as many as were in use at once. Moved,
/// not copied. Thread-safe.
class Pinned {
 public:
  explicit Pinned(std::size_t bytes);  ///< throws OutOfMemory
  ~Pinned();
  Pinned(Pinned&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Pinned& operator=(Pinned&&) = delete;

  void* data() const { return data_; }
  /// Gives the block back once the stream has done the work that it was given before.
  void give_back_after(cudaStream_t stream) &&;

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;  ///< of the block
};

/// The allocator of pinned memory for CPU tensors, which copies to the device read in place. Its
/// blocks are kept for reuse as those of any allocator. Lives as long as the process.
CachingAllocator& pinned_allocator();
/// Whether the tensor lies in such memory.
bool is_pinned(const Tensor& tensor);

}  // namespace troupe::cuda
