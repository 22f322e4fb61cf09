#include "actors/gradient_tree.h"

#include <fmt/format.h>

#include "runtime/error.h"

namespace troupe {

void GradientTree::add(TreePlace place, Tensor tensor) {
  constexpr std::uint32_t levels = 32;  // of an index; a place may come from another process
  if (place.level >= levels || beyond(place))
    throw Error(ErrorCode::bad_message,
                fmt::format("a partial sum at place {} of level {} in a tree of {} micro-batches",
                            place.index, place.level, count_));
  Sum sum{std::move(tensor), false};
  while ((std::uint64_t{1} << place.level) < count_) {
    const TreePlace sibling{place.level, place.index ^ 1u};
    if (!beyond(sibling)) {
      const auto found = sums_.find(sibling);
      if (found == sums_.end()) break;  // it comes later
      // Left plus right, whichever came first.
      Sum other = std::move(found->second);
      sums_.erase(found);
      if (sibling < place) std::swap(sum, other);
      if (sum.own) {
        kernels_.accumulate(stream_, sum.tensor, other.tensor);
      } else if (sum.tensor.defined()) {
        sum = {kernels_.arithmetic(stream_, ArithmeticOperation::add, sum.tensor, other.tensor),
               true};
      }
    }
    place = {place.level + 1, place.index / 2};
  }
  sums_.emplace(place, std::move(sum));
}

std::vector<PartialSum> GradientTree::partial_sums() const {
  std::vector<PartialSum> partial;
  for (const auto& [place, sum] : sums_) partial.push_back({place, sum.tensor});
  return partial;
}

std::optional<Tensor> GradientTree::sum() const {
  if (sums_.size() != 1) return std::nullopt;
  const auto& [place, sum] = *sums_.begin();
  if (place.index != 0 || (std::uint64_t{1} << place.level) < count_) return std::nullopt;
  return sum.tensor;
}

}  // namespace troupe
