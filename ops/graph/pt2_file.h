#pragma once
// The archive that torch.export.save writes: JSON documents and the bytes of tensors.

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "ops/graph/json_access.h"
#include "runtime/file/torch_file.h"
#include "runtime/file/zip.h"
#include "runtime/tensor/named_tensor.h"

namespace troupe::graph {

/// The element type of a "dtype" member. Throws Error{bad_file} for types without a counterpart.
DType dtype_of_number(const JsonAccess& meta);

/// A tensor as the configuration of a .pt2 describes it.
struct Pt2Tensor {
  std::string name;     ///< in the state_dict, or of a constant
  std::string payload;  ///< the member with its bytes; tied tensors share it
  bool trainable = false;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::int64_t> strides;  ///< in elements
  std::int64_t offset = 0;            ///< elements before the first

  /// A text that is the same for tied tensors alone: the same elements of the same bytes.
  std::string elements() const;
};

/// An open .pt2. Nothing in it is run; pickles are not read.
class Pt2File {
 public:
  /// Throws Error{bad_file} for archives of another kind (with the export line for TorchScript and
  /// weights alone), of another schema, and for tensors that exceed their bytes.
  static Pt2File open(const std::filesystem::path& path);
  /// The same of bytes in memory, which the caller keeps.
  static Pt2File parse(std::span<const std::byte> bytes, const std::string& origin);

  const std::string& origin() const { return origin_; }
  const nlohmann::json& model() const { return model_; }  ///< models/model.json
  void drop_model() { model_ = nullptr; }                 ///< frees its memory
  /// Parameters and persistent buffers, by name.
  const std::map<std::string, Pt2Tensor>& weights() const { return weights_; }
  /// Literals and other buffers, by name.
  const std::map<std::string, Pt2Tensor>& constants() const { return constants_; }
  /// A row-major copy, or a view of the mapped file where it is one already. Together the different
  /// tensors have at most four times the bytes of the archive, and 64 MiB.
  Tensor read(const Pt2Tensor& tensor) const;

 private:
  Pt2File(ZipArchive archive, std::string origin);
  nlohmann::json document(const std::string& member) const;
  void check_memory() const;
  std::map<std::string, Pt2Tensor> read_config(const std::string& folder,
                                               const std::string& file) const;

  ZipArchive archive_;
  std::string origin_;  ///< "'net.pt2'"
  std::string stem_;    ///< "net/"
  nlohmann::json model_;
  std::map<std::string, Pt2Tensor> weights_, constants_;
};

}  // namespace troupe::graph
