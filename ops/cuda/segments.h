#pragma once
#include <cstdint>

#include "ops/cuda/launch.h"

namespace troupe::cuda {

/// Several arrays that one launch processes. Each has its own consecutive range of blocks, or of
/// tiles of work.
template <class Item>
struct Segments {
  struct One {
    Item item;
    std::int64_t count;  ///< elements
    std::int64_t end;    ///< behind its blocks
  };
  static constexpr std::size_t most = 4000 / sizeof(One);  // arguments of 4 KiB fit any device
  One at[most];

  __device__ std::int64_t begin(unsigned segment) const {
    return segment == 0 ? 0 : at[segment - 1].end;
  }
  /// The segment of a block, which is not before `from`.
  __device__ unsigned of_block(std::int64_t block, unsigned from = 0) const {
    while (block >= at[from].end) ++from;
    return from;
  }
};

}  // namespace troupe::cuda
