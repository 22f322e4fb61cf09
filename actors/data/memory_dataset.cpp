#include "actors/data/memory_dataset.h"

#include <cstring>

namespace troupe {
namespace {

void copy_row(const Tensor& from, std::int64_t index, Tensor& to) {
  const Tensor row = from.narrow(index, 1);
  std::memcpy(to.raw(), row.raw(), row.bytes());
}

}  // namespace

std::optional<StoredSamples> MemoryDataset::stored(Split split) const {
  // A copy of the handle: two threads may not use one shared_future, but each a copy.
  const std::shared_future<Tensor> samples = part(split).samples;
  return StoredSamples{samples.get(), part(split).targets};
}

void MemoryDataset::read(Split split, std::int64_t index, Tensor sample, Tensor target) const {
  const StoredSamples all = *stored(split);
  copy_row(all.samples, index, sample);
  copy_row(all.targets, index, target);
}

}  // namespace troupe
