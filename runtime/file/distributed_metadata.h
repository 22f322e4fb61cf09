#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/file/file.h"
#include "runtime/file/pickle.h"
#include "runtime/tensor/dtype.h"
#include "runtime/tensor/shape.h"

namespace troupe::distributed {

/// A part of a tensor: an archive of torch.save that holds it.
struct Part {
  std::vector<std::int64_t> offsets;  ///< of its first element in the tensor
  Shape shape;
  std::string_view file;  ///< its name in the folder
  std::uint64_t begin = 0, length = 0;
};

struct StoredTensor {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::string_view> path;  ///< keys: "model", "conv1.weight"; not empty
  std::vector<Part> parts;             ///< within the shape
};

/// What `.metadata` of torch.distributed.checkpoint states about tensors.
struct Metadata {
  std::map<std::string_view, StoredTensor> tensors;
  std::vector<std::string_view> names;  ///< of `tensors`, in the order of the file
  std::vector<std::string_view> keys;   ///< of the dictionary that was saved, each once
  // What owns the texts. A file may repeat a long one often at a small cost, so none is copied.
  std::shared_ptr<const MappedFile> file;
  std::shared_ptr<const Pickle> pickle;
};

/// Reads the file without running its code. Optimizer tensors (keys with list indices or numbers)
/// are skipped. Throws Error: io; bad_file for damage, for files in other folders and for parts
/// outside of their tensor; unsupported for other element types and transformed data.
Metadata read_metadata(const std::filesystem::path& path);

}  // namespace troupe::distributed
