#include "actors/data/array_file.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "actors/data/hold_out.h"
#include "runtime/error.h"
#include "runtime/overloaded.h"
#include "runtime/text.h"
#include "runtime/world/memory_limit.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

using PartNames = std::array<std::string, 2>;  // of samples and targets

/// As errors name an array.
std::string title(const std::string& name, const fs::path& path) {
  return fmt::format("{} in {}", printable(name), path.string());
}

void check_names(const fs::path& path, const ArrayFile& file, const PartNames& names) {
  for (const std::string& name : names)
    if (!file.contains(name))
      throw Error(ErrorCode::bad_options,
                  fmt::format("{} has no array {}", path.string(), printable(name)),
                  fmt::format("name its arrays by `Dataset::train_samples`, "
                              "`Dataset::train_targets`, `Dataset::test_samples` and "
                              "`Dataset::test_targets`; it has {}",
                              listed(file.names(), 8)));
}

/// Throws if the arrays that are read into memory do not fit there together: samples and targets in
/// turn.
void check_memory(const ArrayFile& file, const std::vector<std::string>& names,
                  const std::vector<TensorInfo>& headers) {
  const MemoryLimit limit = memory_limit();
  std::uint64_t total = 0;
  bool has_samples = false;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const ArrayAccess access = file.access(names[i]);
    const bool is_samples = i % 2 == 0;
    if (access == ArrayAccess::mapped || (is_samples && access == ArrayAccess::by_row)) continue;
    has_samples = has_samples || is_samples;
    const auto elements = static_cast<std::uint64_t>(headers[i].shape.element_count());
    const std::size_t size = size_of(headers[i].dtype);
    if (elements > (limit.bytes - total) / size)
      throw Error(
          ErrorCode::bad_file,
          fmt::format("{}: it has {} elements of {}{}, but {} has a memory of {} bytes",
                      headers[i].name, elements, name_of(headers[i].dtype),
                      total == 0 ? "" : fmt::format(", after {} bytes of others", total),
                      limit.holder, limit.bytes),
          has_samples
              ? "give the job more memory, or store samples in chunks, which are read one by one"
              : "give the job more memory: targets are read into it as a whole");
    total += elements * size;
  }
}

/// The headers of the arrays of all parts, samples before targets; the names are for errors. They
/// are compared before any array is read: a small file of packed arrays may need much memory.
std::vector<TensorInfo> checked_headers(const fs::path& path, const ArrayFile& file,
                                        const std::vector<PartNames>& parts) {
  std::vector<std::string> names;
  for (const PartNames& part : parts) names.insert(names.end(), part.begin(), part.end());
  std::vector<TensorInfo> headers = file.headers(names);
  for (std::size_t i = 0; i < headers.size(); ++i) headers[i].name = title(names[i], path);
  std::optional<ArrayPartHeader> test;
  if (headers.size() > 2) test = {headers[2], headers[3]};
  check_arrays({headers[0], headers[1]}, test);
  check_memory(file, names, headers);
  return headers;
}

/// Stands for samples that are not read.
class UnreadRows final : public RowReader {
 public:
  explicit UnreadRows(TensorInfo header) : header_(std::move(header)) {}

  Shape shape() const override { return header_.shape; }
  DType dtype() const override { return header_.dtype; }
  void read_row(std::int64_t /*row*/, std::span<std::byte> /*out*/) const override {
    throw Error(ErrorCode::internal, fmt::format("{} was not read", header_.name));
  }

 private:
  TensorInfo header_;
};

/// Whether the samples of a data set are read with it.
enum class SamplesAre { read, unread };

std::shared_ptr<const SampleReader> read_arrays(std::string_view name, const fs::path& path,
                                                const ArrayFile& file, const ArrayNames& names,
                                                const DatasetOptions& options, SamplesAre samples) {
  std::vector<PartNames> all = {{names.train_samples, names.train_targets}};
  if (file.contains(names.test_samples) || file.contains(names.test_targets))
    all.push_back({names.test_samples, names.test_targets});
  for (const PartNames& part : all) check_names(path, file, part);
  const std::vector<TensorInfo> headers = checked_headers(path, file, all);
  file.check_stored(names.train_targets);
  std::vector<ArrayPart> parts;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ArrayPart part{.samples_name = headers[2 * i].name, .targets_name = headers[2 * i + 1].name};
    part.targets = file.read(all[i][1]);
    if (samples == SamplesAre::unread) {
      part.rows = std::make_shared<UnreadRows>(headers[2 * i]);
    } else {
      auto found = file.read_samples(all[i][0]);
      std::visit(Overloaded{[&](Tensor& array) { part.samples = std::move(array); },
                            [&](std::shared_ptr<const RowReader>& rows) { part.rows = rows; }},
                 found);
    }
    parts.push_back(std::move(part));
  }
  std::optional<ArrayPart> test;
  if (parts.size() > 1) test = std::move(parts[1]);
  return array_dataset(name, std::move(parts[0]), std::move(test), names.test_fraction, options);
}

}  // namespace

OptionFields array_options(fs::path& path, const char* path_help, ArrayNames& names) {
  return {
      field("data.path", path, path_help, {.setting = "Dataset::path"}),
      field("data.train_samples", names.train_samples,
            "array of the training samples, x_train by default",
            {.setting = "Dataset::train_samples"}),
      field("data.train_targets", names.train_targets,
            "array of the training targets, y_train by default",
            {.setting = "Dataset::train_targets"}),
      field("data.test_samples", names.test_samples, "array of the test samples, x_test by default",
            {.setting = "Dataset::test_samples"}),
      field("data.test_targets", names.test_targets, "array of the test targets, y_test by default",
            {.setting = "Dataset::test_targets"}),
      test_fraction_option(names.test_fraction)};
}

void check_array_path(std::string_view name, const fs::path& path) {
  if (path.empty())
    throw Error(
        ErrorCode::io, fmt::format("{} has no `Dataset::path`", name),
        "set `Dataset::path` to the file of the arrays x_train, y_train, x_test and y_test");
  if (std::error_code ignored; !fs::is_regular_file(path, ignored))
    throw Error(
        ErrorCode::bad_options,
        fmt::format("`Dataset::path` is {}, which {}", path.string(),
                    std::filesystem::exists(path, ignored) ? "is not a file" : "does not exist"),
        fmt::format("set `Dataset::path` to the file of {} that holds the arrays", name));
}

std::shared_ptr<const SampleReader> open_arrays(std::string_view name, const fs::path& path,
                                                const ArrayFile& file, const ArrayNames& names,
                                                const DatasetOptions& options) {
  return read_arrays(name, path, file, names, options, SamplesAre::read);
}

DatasetSummary describe_arrays(std::string_view name, const fs::path& path, const ArrayFile& file,
                               const ArrayNames& names, const DatasetOptions& options) {
  const auto all = read_arrays(name, path, file, names, options, SamplesAre::unread);
  return {all->samples(), all->count(Split::train), all->count(Split::test)};
}

}  // namespace troupe
