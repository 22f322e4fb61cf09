#pragma once
// Data sets of plain arrays: one of samples and one of targets for each split.

#include <optional>
#include <string>
#include <vector>

#include "actors/data/dataset.h"

namespace troupe {

/// The outermost axis counts the samples. The names are for errors.
struct ArrayPart {
  Tensor samples, targets;
  std::string samples_name, targets_name;
};

/// Samples of u8 are pixels and are normalised like other images; those of f32 and f64 are taken as
/// they are. Pixels of [height, width] get an axis for their one channel. Targets of integers are
/// classes, [n] or [n, 1]; those of f32 and f64 are numbers, [n] or [n, outputs].
/// Without `test`, `test_fraction` of the training samples are held out for testing, drawn by the
/// seed; with a fraction of 0 there are no test samples. Throws Error{bad_file} for arrays that are
/// of other types or do not fit each other, and for negative classes.
std::shared_ptr<const SampleReader> array_dataset(std::string_view name, ArrayPart train,
                                                  std::optional<ArrayPart> test,
                                                  double test_fraction,
                                                  const DatasetOptions& options);

}  // namespace troupe
