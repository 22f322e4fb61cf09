#pragma once
#include <cstddef>
#include <memory>

namespace troupe::cpu {

/// Working memory of a kernel, for the time of one call. Its content is undefined.
///
/// The process keeps as many blocks as kernels have run at one time, each as large as the largest
/// request so far, and hands out the one that was used last: it is the likeliest to be in the
/// cache. A Winograd convolution of 640 channels requests 200 MB. One block per layer, or per size
/// class as for tensors, would need more memory than the tensors themselves. Thread-safe.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes);  ///< throws std::bad_alloc when memory is out
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// The largest request since the last call; 0: there was none.
  static std::size_t take_peak();

  void* data() const { return block_.data.get(); }  ///< 64-byte aligned; null for 0 bytes

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  struct Block {
    std::unique_ptr<std::byte[], Free> data;
    std::size_t bytes = 0;
  };
  struct Pool;
  static Pool& pool();

  Block block_;
};

}  // namespace troupe::cpu
