#include "actors/data/npz_arrays.h"

#include "actors/data/array_file.h"
#include "runtime/file/npz.h"

namespace troupe {
namespace {

class ArraysOfNpz final : public ArrayFile {
 public:
  explicit ArraysOfNpz(const std::filesystem::path& path) : archive_(path) {}

  std::vector<std::string> names() const override {
    std::vector<std::string> names = archive_.names();
    for (std::string& name : names)
      if (name.ends_with(".npy")) name.resize(name.size() - 4);
    return names;
  }
  bool contains(const std::string& name) const override { return archive_.contains(member(name)); }
  std::vector<TensorInfo> headers(const std::vector<std::string>& names) const override {
    std::vector<std::string> members;
    for (const std::string& name : names) members.push_back(member(name));
    return archive_.headers(members);
  }
  Tensor read(const std::string& name) const override { return archive_.read(member(name)); }

 private:
  static std::string member(const std::string& name) {
    return name.ends_with(".npy") ? name : name + ".npy";
  }
  NpzArchive archive_;
};

}  // namespace

OptionFields NpzArrays::options() {
  return array_options(path, "file that numpy.savez or numpy.savez_compressed has written", names);
}

DatasetSummary NpzArrays::describe(const DatasetOptions& options) const {
  check_array_path(name, path);
  return describe_arrays(name, path, ArraysOfNpz(path), names, options);
}

std::shared_ptr<const SampleReader> NpzArrays::open(const DatasetOptions& options) const {
  check_array_path(name, path);
  return open_arrays(name, path, ArraysOfNpz(path), names, options);
}

}  // namespace troupe
