#pragma once
// Inside of a Dataset, for the sources that make one.

#include <future>
#include <string>

#include "actors/data/dataset.h"

namespace troupe {

struct Dataset::Content {
  struct Part {
    Tensor labels;                      // i64 [N]
    std::shared_future<Tensor> images;  // u8 [N, C, H, W]
  };
  DatasetOptions options;  // that it was opened with
  std::int64_t classes = 0;
  Shape sample_shape;
  Part train;
  Part test;

  const Part& part(Split split) const { return split == Split::train ? train : test; }
};

namespace detail {
Dataset open_idx_folder(const DatasetOptions& options);
/// From the header alone; throws as open_idx_folder.
std::int64_t count_idx_samples(const DatasetOptions& options);
Dataset make_synthetic(const DatasetOptions& options);
}  // namespace detail

}  // namespace troupe
