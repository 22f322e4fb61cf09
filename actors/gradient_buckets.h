#pragma once
#include <cstddef>
#include <vector>

namespace troupe {

/// Divides the blocks of a stage into buckets. The stage sends the gradient of a bucket before it
/// computes the next one (S. Li et al., "PyTorch Distributed: experiences on accelerating data
/// parallel training", VLDB 2020, sections 3.2.2 and 3.2.3). `block_bytes` are those of each
/// block's gradient in forward order; the result is the number of blocks of each bucket in backward
/// order, bucket 0 from the last block on. A bucket takes blocks until the next one would bring it
/// over `cap_bytes`; a block that is larger has a bucket of its own, and every bucket has weights
/// if there are any at all.
std::vector<std::size_t> gradient_buckets(const std::vector<std::size_t>& block_bytes,
                                          std::size_t cap_bytes);

}  // namespace troupe
