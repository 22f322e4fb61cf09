#pragma once
// Labelled images in memory, as the loader reads them.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "runtime/tensor/tensor.h"

namespace troupe {

enum class Split : std::uint8_t { train, test };

/// Options::data, as far as it says which samples there are; and Options::seed.
struct DatasetOptions {
  std::string name = "fashion_mnist";  ///< fashion_mnist | synthetic
  std::filesystem::path path;          ///< folder of the IDX files; empty: Debian's
  Shape shape{1, 28, 28};              ///< synthetic: [C, H, W]
  std::int64_t classes = 10;           ///< synthetic
  std::int64_t count = 6400;           ///< synthetic: training samples; a sixth as many for testing
  std::uint64_t seed = 1;              ///< synthetic
  std::int64_t limit = 0;              ///< only the first N training samples; 0: all
  std::int64_t test_limit = 0;         ///< only the first N test samples; 0: all
};

/// A handle of a training and a test set of u8 images with labels; copies share the data.
///
/// Labels and sizes are there once it is open. Images arrive later: those for training are
/// unpacked by a thread that opening starts, those for testing when first asked for; `images`
/// waits for them. Safe to use from any thread; the last copy waits for the thread to end.
class Dataset {
 public:
  struct Content;
  explicit Dataset(std::shared_ptr<const Content> content) : content_(std::move(content)) {}

  const DatasetOptions& options() const;  ///< that it was opened with
  const std::string& name() const;        ///< as in DatasetOptions; for messages
  std::int64_t classes() const;
  const Shape& sample_shape() const;  ///< [C, H, W]
  std::int64_t count(Split split) const;
  Tensor labels(Split split) const;  ///< i64 [N], each in [0, classes)
  /// u8 [N, C, H, W]. Waits; throws the Error (io, bad_file) that unpacking met, every time.
  Tensor images(Split split) const;

 private:
  std::shared_ptr<const Content> content_;
};

/// Throws Error: bad_options for an unknown name or sizes out of range, io for a missing file (and
/// how to get it), bad_file for one that is damaged or does not fit the others.
Dataset open_dataset(const DatasetOptions& options);

/// How many training samples open_dataset would find, from the header of a file at most; nothing
/// where that cannot be read. Throws nothing.
std::optional<std::int64_t> count_training_samples(const DatasetOptions& options);

}  // namespace troupe
