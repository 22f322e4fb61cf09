#pragma once
#include <cstddef>

namespace troupe::cuda {

/// A block of the CPU's memory that the device copies from and to while the host goes on. Blocks
/// are kept for reuse, since to get or to free one waits for the device. Moved, not copied.
/// Thread-safe: also a host function of CUDA may give one back.
class Pinned {
 public:
  explicit Pinned(std::size_t bytes);  ///< throws OutOfMemory
  ~Pinned();
  Pinned(Pinned&& other) noexcept : data_(other.data_), bytes_(other.bytes_) {
    other.data_ = nullptr;
  }
  Pinned& operator=(Pinned&&) = delete;

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;  ///< of the block
};

}  // namespace troupe::cuda
