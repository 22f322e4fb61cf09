#pragma once
// Data sets of files that may have arrays in chunks: HDF5 and zarr.

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/data/array_file.h"
#include "runtime/file/chunked_array.h"

namespace troupe {

class RowsOfChunks final : public RowReader {
 public:
  explicit RowsOfChunks(std::shared_ptr<const ChunkedArray> array) : array_(std::move(array)) {}

  Shape shape() const override { return array_->shape(); }
  DType dtype() const override { return array_->dtype(); }
  void read_row(std::int64_t row, std::span<std::byte> out) const override {
    array_->read_row(row, out);
  }
  std::size_t bytes_in_memory() const override { return array_->most_cache_bytes(); }
  std::size_t bytes_per_thread() const override { return array_->most_reader_bytes(); }

 private:
  std::shared_ptr<const ChunkedArray> array_;
};

/// The arrays of an Hdf5File or a ZarrFolder. Samples in chunks are read when they are needed;
/// targets are read into memory.
template <class File>
class ChunkedArrays final : public ArrayFile {
 public:
  explicit ChunkedArrays(File file) : file_(std::move(file)) {}

  std::vector<std::string> names() const override { return file_.names(); }
  bool contains(const std::string& name) const override { return file_.contains(name); }
  std::vector<TensorInfo> headers(const std::vector<std::string>& names) const override {
    std::vector<TensorInfo> headers;
    headers.reserve(names.size());
    for (const std::string& name : names) headers.push_back(file_.header(name));
    return headers;
  }
  ArrayAccess access(const std::string& name) const override { return file_.access(name); }
  void check_stored(const std::string& name) const override { (void)file_.chunked(name); }
  Tensor read(const std::string& name) const override { return file_.read(name); }
  std::variant<Tensor, std::shared_ptr<const RowReader>> read_samples(
      const std::string& name) const override {
    if (auto array = file_.chunked(name)) return std::make_shared<RowsOfChunks>(std::move(array));
    return read(name);
  }

 private:
  File file_;
};

}  // namespace troupe
