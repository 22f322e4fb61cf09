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
  Node node{std::move(tensor), false};
  while ((std::uint64_t{1} << place.level) < count_) {
    const TreePlace sibling{place.level, place.index ^ 1u};
    if (!beyond(sibling)) {
      const auto found = nodes_.find(sibling);
      if (found == nodes_.end()) break;  // it comes later
      // Left plus right, whichever came first.
      Node other = std::move(found->second);
      nodes_.erase(found);
      if (sibling < place) std::swap(node, other);
      if (node.own) {
        kernels_.accumulate(stream_, node.tensor, other.tensor);
      } else if (node.tensor.defined()) {
        node = {kernels_.add(stream_, node.tensor, other.tensor), true};
      }
    }
    place = {place.level + 1, place.index / 2};
  }
  nodes_.emplace(place, std::move(node));
}

std::vector<PartialSum> GradientTree::partial_sums() const {
  std::vector<PartialSum> sums;
  for (const auto& [place, node] : nodes_) sums.push_back({place, node.tensor});
  return sums;
}

std::optional<Tensor> GradientTree::sum() const {
  if (nodes_.size() != 1) return std::nullopt;
  const auto& [place, node] = *nodes_.begin();
  if (place.index != 0 || (std::uint64_t{1} << place.level) < count_) return std::nullopt;
  return node.tensor;
}

}  // namespace troupe
