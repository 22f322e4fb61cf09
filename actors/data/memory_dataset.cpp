#include "actors/data/memory_dataset.h"

#include <fmt/format.h>

#include <cstring>

#include "runtime/tensor/out_of_memory.h"

namespace troupe {
namespace {

void copy_row(const Tensor& from, std::int64_t index, Tensor& to) {
  const Tensor row = from.narrow(index, 1);
  std::memcpy(to.raw(), row.raw(), row.bytes());
}

}  // namespace

Error lacks_memory(std::string_view dataset, const std::string& message) {
  return {ErrorCode::out_of_memory, fmt::format("reading the samples of {}: {}", dataset, message),
          "give the job more memory; the arrays of .npy files, and of chunks in HDF5 files and "
          "zarr folders (`Dataset::name` npy, hdf5 or zarr) need not fit into memory"};
}

std::optional<StoredSamples> MemoryDataset::stored(Split split) const {
  // A copy of the handle: two threads may not use one shared_future, but each a copy.
  const std::shared_future<Tensor> samples = part(split).samples;
  try {
    return StoredSamples{samples.get(), part(split).targets};
  } catch (const OutOfMemory& error) {
    throw lacks_memory(name_, error.message());
  }
}

void MemoryDataset::read(Split split, std::int64_t index, Tensor sample, Tensor target) const {
  const StoredSamples all = *stored(split);
  copy_row(all.samples, index, sample);
  copy_row(all.targets, index, target);
}

}  // namespace troupe
