#include "actors/gradient_tree.h"

namespace troupe {

void GradientTree::add(std::uint32_t micro_batch, Tensor tensor) {
  Place place{0, micro_batch};
  while ((std::uint64_t{1} << place.level) < count_) {
    const Place sibling{place.level, place.index ^ 1u};
    if (!beyond(sibling)) {
      const auto found = nodes_.find(sibling);
      if (found == nodes_.end()) break;  // it comes later
      // Left plus right, whichever came first.
      Tensor other = std::move(found->second);
      nodes_.erase(found);
      if (sibling < place) std::swap(tensor, other);
      if (tensor.defined()) kernels_.accumulate(stream_, tensor, other);
    }
    place = {place.level + 1, place.index / 2};
  }
  nodes_.emplace(place, std::move(tensor));
}

std::optional<Tensor> GradientTree::sum() const {
  if (nodes_.size() != 1) return std::nullopt;
  const auto& [place, tensor] = *nodes_.begin();
  if (place.index != 0 || (std::uint64_t{1} << place.level) < count_) return std::nullopt;
  return tensor;
}

}  // namespace troupe
