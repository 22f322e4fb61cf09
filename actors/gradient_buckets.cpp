#include "actors/gradient_buckets.h"

namespace troupe {

std::vector<std::size_t> gradient_buckets(const std::vector<std::size_t>& block_bytes,
                                          std::size_t cap_bytes) {
  std::vector<std::size_t> buckets{0};
  std::size_t bytes = 0;  // of the open bucket
  for (auto block = block_bytes.rbegin(); block != block_bytes.rend(); ++block) {
    if (bytes > 0 && *block > 0 && bytes + *block > cap_bytes) {
      buckets.push_back(0);
      bytes = 0;
    }
    ++buckets.back();
    bytes += *block;
  }
  return buckets;
}

}  // namespace troupe
