#pragma once
// Data sets of plain arrays: one of samples and one of targets for each split.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/data/dataset.h"
#include "runtime/tensor/named_tensor.h"

namespace troupe {

/// An array in a file whose rows, the entries of its outermost axis, are read one at a time.
/// Immutable: any thread may read.
class RowReader {
 public:
  virtual ~RowReader() = default;
  virtual Shape shape() const = 0;
  virtual DType dtype() const = 0;
  /// Fills `out`, which has the size of one row.
  virtual void read_row(std::int64_t row, std::span<std::byte> out) const = 0;
  /// The most memory of rows that are kept.
  virtual std::size_t bytes_in_memory() const { return 0; }
  /// The most that each thread in read_row() takes besides.
  virtual std::size_t bytes_per_thread() const { return 0; }
};

/// The outermost axis counts the samples. The names are for errors.
struct ArrayPart {
  Tensor samples;  ///< in memory or mapped; undefined where `rows` has the samples
  Tensor targets;
  std::string samples_name, targets_name;
  std::shared_ptr<const RowReader> rows = {};

  Shape shape() const { return rows ? rows->shape() : samples.shape(); }
  DType dtype() const { return rows ? rows->dtype() : samples.dtype(); }
};

/// What the arrays of a part state before they are read; the names are for errors.
struct ArrayPartHeader {
  TensorInfo samples, targets;
};

/// Throws Error{bad_file} for arrays that array_dataset refuses by their types and shapes.
void check_arrays(const ArrayPartHeader& train, const std::optional<ArrayPartHeader>& test);

/// Samples of u8 are pixels and are normalised like other images; those of f32 and f64 are taken as
/// they are. Other integers are indices, such as tokens, and become i64. Pixels of [height, width]
/// get an axis for their one channel. Targets of integers are classes, [n] or [n, 1]; those of f32
/// and f64 are numbers, [n] or [n, outputs]. `names` are those of the reader. Without `test`,
/// `test_fraction` of the training samples are held out for testing, drawn by the seed; with a
/// fraction of 0 there are no test samples. Throws Error{bad_file} for arrays that are of other
/// types or do not fit each other, and for negative classes.
std::shared_ptr<const SampleReader> array_dataset(std::string_view name, ArrayPart train,
                                                  std::optional<ArrayPart> test,
                                                  double test_fraction,
                                                  const DatasetOptions& options,
                                                  TargetNames names = {});

}  // namespace troupe
