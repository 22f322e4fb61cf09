#pragma once
#include <cstddef>
#include <vector>

namespace troupe {

/// Divides the blocks of a stage into buckets. The stage sends the gradient of a bucket before it
/// computes the next one (S. Li et al., "PyTorch Distributed: experiences on accelerating data
/// parallel training", VLDB 2020, sections 3.2.2 and 3.2.3). `block_bytes` is the gradient size of
/// each block, in forward order. The result is the number of blocks in each bucket, in backward
/// order: bucket 0 starts at the last block. A bucket takes blocks until the next one would exceed
/// `cap_bytes`. A larger block has a bucket of its own. If the stage has any weights, no bucket is
/// without weights.
std::vector<std::size_t> gradient_buckets(const std::vector<std::size_t>& block_bytes,
                                          std::size_t cap_bytes);

}  // namespace troupe
