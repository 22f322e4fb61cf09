#pragma once
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe::cpu {

/// Keeps the working memory of kernels for the next call.
///
/// It has at most as many blocks as kernels have run at one time; each is as large as the largest
/// request that it has served. One block per layer or size class would need more memory than the
/// tensors: a Winograd convolution of 640 channels requests 30 MB. A kernel gets the block that was
/// used last, which is likeliest to be in the cache. Thread-safe.
class ScratchPool {
 public:
  /// The largest request since the last call; 0: there was none.
  std::size_t take_peak();

 private:
  friend class Scratch;
  struct Free {
    void operator()(std::byte* data) const;
  };
  struct Block {
    std::unique_ptr<std::byte[], Free> data;
    std::size_t bytes = 0;
  };

  Block take(std::size_t bytes);
  void give_back(Block block);

  std::mutex mutex_;
  std::vector<Block> blocks_;  ///< the last one was used last
  std::size_t peak_ = 0;
};

/// The working memory of a kernel, for the time of one call. Its content is undefined.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes);  ///< throws std::bad_alloc when memory is out
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const { return block_.data.get(); }  ///< 64-byte aligned; null for 0 bytes

 private:
  ScratchPool::Block block_;
};

}  // namespace troupe::cpu
