#pragma once
// HDF5 files for tests, also those that a sensible program does not write.

#include <hdf5.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace troupe::test {

struct Hdf5Set {
  std::vector<hsize_t> shape;
  hid_t type = H5T_IEEE_F32LE;
  std::vector<hsize_t> chunk = {};
  /// Further properties, such as filters.
  std::function<void(hid_t creation)> with = [](hid_t) {};
};

/// Adds data sets and links to a new file. Calls of libhdf5 that fail show when it is read.
class Hdf5Writer {
 public:
  explicit Hdf5Writer(const std::filesystem::path& path, hid_t access = H5P_DEFAULT)
      : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access)) {}
  ~Hdf5Writer() { H5Fclose(file_); }
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  hid_t file() const { return file_; }
  /// A data set that the caller closes.
  hid_t create(const std::string& name, const Hdf5Set& set) const {
    const hid_t space =
        H5Screate_simple(static_cast<int>(set.shape.size()), set.shape.data(), nullptr);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    if (!set.chunk.empty())
      H5Pset_chunk(creation, static_cast<int>(set.chunk.size()), set.chunk.data());
    set.with(creation);
    const hid_t made =
        H5Dcreate2(file_, name.c_str(), set.type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    H5Pclose(creation);
    H5Sclose(space);
    return made;
  }
  /// With these values, whose type in memory is `native`.
  template <class T>
  void add(const std::string& name, hid_t native, const std::vector<T>& values,
           const Hdf5Set& set) const {
    const hid_t made = create(name, set);
    H5Dwrite(made, native, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    H5Dclose(made);
  }
  /// With one chunk of these bytes, as if filters had made them.
  void add_raw(const std::string& name, const std::string& bytes, const Hdf5Set& set) const {
    const hid_t made = create(name, set);
    const std::vector<hsize_t> first(set.shape.size());
    H5Dwrite_chunk(made, H5P_DEFAULT, 0, first.data(), bytes.size(), bytes.data());
    H5Dclose(made);
  }

 private:
  hid_t file_;
};

}  // namespace troupe::test
