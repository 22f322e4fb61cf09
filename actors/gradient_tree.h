#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ops/kernels.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// A place in the tree: covers micro-batches [index << level, (index + 1) << level).
struct TreePlace {
  std::uint32_t level = 0, index = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): there is no pointer here; clang-tidy errs
  auto operator<=>(const TreePlace&) const = default;

  static void members(auto& self, auto& visit) {
    visit(self.level);
    visit(self.index);
  }
};

/// The sum of the micro-batches of a place, or a part of its elements.
struct PartialSum {
  TreePlace place;
  Tensor sum;

  static void members(auto& self, auto& visit) {
    visit(self.place);
    visit(self.sum);
  }
};

/// Sums one tensor for each of `count` micro-batches in a fixed binary tree over their indices, in
/// any order of arrival: the sum of [0, 8) is ((0+1)+(2+3))+((4+5)+(6+7)); where the right half is
/// missing, the sum is the left half. So the result does not depend on the order, and reducers that
/// each have a range can exchange partial sums. Holds about log2(count) + 1 tensors when fed in
/// order.
class GradientTree {
 public:
  GradientTree(std::uint32_t count, const KernelTable& kernels, Stream stream)
      : count_(count), kernels_(kernels), stream_(stream) {}

  /// Reads the tensor now or later; sums are written to memory of the tree.
  void add(std::uint32_t micro_batch, Tensor tensor) { add({0, micro_batch}, std::move(tensor)); }
  /// Adds a sum that another tree has made of all micro-batches of a place.
  void add(TreePlace place, Tensor tensor);
  /// The sum, once every index was added.
  std::optional<Tensor> sum() const;
  /// The sums whose other half is missing, in the order of their places.
  std::vector<PartialSum> partial_sums() const;

 private:
  bool beyond(TreePlace place) const {
    return (std::uint64_t{place.index} << place.level) >= count_;
  }

  std::uint32_t count_;
  const KernelTable& kernels_;
  Stream stream_;
  struct Sum {
    Tensor tensor;
    bool own = false;  ///< made by the tree, not given to it
  };
  std::map<TreePlace, Sum> sums_;
};

}  // namespace troupe
