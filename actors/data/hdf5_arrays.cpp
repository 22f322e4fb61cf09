#include "actors/data/hdf5_arrays.h"

#include "actors/data/array_file.h"
#include "runtime/file/hdf5.h"

namespace troupe {
namespace {

class RowsOfChunks final : public RowReader {
 public:
  explicit RowsOfChunks(std::shared_ptr<const Hdf5Chunks> chunks) : chunks_(std::move(chunks)) {}

  Shape shape() const override { return chunks_->shape(); }
  DType dtype() const override { return chunks_->dtype(); }
  void read_row(std::int64_t row, std::span<std::byte> out) const override {
    chunks_->read_row(row, out);
  }

 private:
  std::shared_ptr<const Hdf5Chunks> chunks_;
};

class ArraysOfHdf5 final : public ArrayFile {
 public:
  explicit ArraysOfHdf5(const std::filesystem::path& path) : file_(path) {}

  std::vector<std::string> names() const override { return file_.names(); }
  bool contains(const std::string& name) const override { return file_.contains(name); }
  std::vector<TensorInfo> headers(const std::vector<std::string>& names) const override {
    std::vector<TensorInfo> headers;
    for (const std::string& name : names) headers.push_back(file_.header(name));
    return headers;
  }
  Tensor read(const std::string& name) const override { return file_.read(name); }
  std::variant<Tensor, std::shared_ptr<const RowReader>> read_samples(
      const std::string& name) const override {
    if (auto chunks = file_.chunked(name)) return std::make_shared<RowsOfChunks>(std::move(chunks));
    return read(name);
  }

 private:
  Hdf5File file_;
};

}  // namespace

OptionFields Hdf5Arrays::options() {
  return array_options(path, "an HDF5 or netCDF-4 file", names);
}

DatasetSummary Hdf5Arrays::describe(const DatasetOptions& options) const {
  check_array_path(name, path);
  return describe_arrays(name, path, ArraysOfHdf5(path), names, options);
}

std::shared_ptr<const SampleReader> Hdf5Arrays::open(const DatasetOptions& options) const {
  check_array_path(name, path);
  return open_arrays(name, path, ArraysOfHdf5(path), names, options);
}

}  // namespace troupe
