#include "actors/data/npy_folder.h"

#include <fmt/format.h>

#include <optional>

#include "actors/data/array_dataset.h"
#include "actors/data/hold_out.h"
#include "runtime/error.h"
#include "runtime/file/npy.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

ArrayPart read_part(const fs::path& samples, const fs::path& targets) {
  for (const fs::path& file : {samples, targets})
    if (std::error_code ignored; !fs::is_regular_file(file, ignored))
      throw Error(ErrorCode::io, fmt::format("{} does not exist", file.string()),
                  "save the array there with numpy.save, or name the files by "
                  "`Dataset::train_samples`, `Dataset::train_targets`, `Dataset::test_samples` and "
                  "`Dataset::test_targets`");
  return {read_npy(samples), read_npy(targets), samples.string(), targets.string()};
}

}  // namespace

OptionFields NpyFolder::options() {
  return {field("data.path", path, "folder of the data set's files", {.setting = "Dataset::path"}),
          field("data.train_samples", train_samples, "file of the training samples",
                {.setting = "Dataset::train_samples"}),
          field("data.train_targets", train_targets, "file of the training targets",
                {.setting = "Dataset::train_targets"}),
          field("data.test_samples", test_samples, "file of the test samples",
                {.setting = "Dataset::test_samples"}),
          field("data.test_targets", test_targets, "file of the test targets",
                {.setting = "Dataset::test_targets"}),
          test_fraction_option(test_fraction)};
}

std::shared_ptr<const SampleReader> NpyFolder::open(const DatasetOptions& options) const {
  if (path.empty())
    throw Error(ErrorCode::io, "npy has no `Dataset::path`",
                "set `Dataset::path` to the folder of x_train.npy, y_train.npy, x_test.npy and "
                "y_test.npy");
  if (std::error_code ignored; !fs::is_directory(path, ignored))
    throw Error(ErrorCode::bad_options,
                fmt::format("`Dataset::path` is {}, which is not a folder", path.string()),
                "give the folder that holds the NumPy files; for a file of several arrays, set "
                "`Dataset::name` to npz");
  ArrayPart train = read_part(path / train_samples, path / train_targets);
  const fs::path samples = path / test_samples, targets = path / test_targets;
  std::error_code ignored;
  std::optional<ArrayPart> test;
  if (fs::exists(samples, ignored) || fs::exists(targets, ignored))
    test = read_part(samples, targets);
  return array_dataset(name, std::move(train), std::move(test), test_fraction, options);
}

}  // namespace troupe
