#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "ops/kernels.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// Sums one tensor for each of `count` micro-batches in a fixed binary tree over their indices, in
/// whatever order they come: the sum of [0, 8) is ((0+1)+(2+3))+((4+5)+(6+7)), a missing right
/// half passes the left through. So the result does not depend on time, and replicas that each
/// hold a range can hand over partial sums. Holds about log2(count) + 1 tensors when fed in order.
class GradientTree {
 public:
  GradientTree(std::uint32_t count, const KernelTable& kernels, Stream stream)
      : count_(count), kernels_(kernels), stream_(stream) {}

  /// Reads the tensor, now or later; sums go to memory of the tree's own.
  void add(std::uint32_t micro_batch, Tensor tensor);
  /// The sum, once every index was added.
  std::optional<Tensor> sum() const;

 private:
  /// Covers indices [index << level, (index + 1) << level).
  struct Place {
    std::uint32_t level = 0, index = 0;
    auto operator<=>(const Place&) const = default;
  };
  bool beyond(Place place) const { return (std::uint64_t{place.index} << place.level) >= count_; }

  std::uint32_t count_;
  const KernelTable& kernels_;
  Stream stream_;
  struct Node {
    Tensor tensor;
    bool own = false;  ///< a sum of the tree's, not what was given to it
  };
  std::map<Place, Node> nodes_;
};

}  // namespace troupe
