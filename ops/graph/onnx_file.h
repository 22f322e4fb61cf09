#pragma once
// The parts of an ONNX file: the graph as protobuf messages, and where its tensors lie.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/graph/onnx.pb.h"
#include "runtime/error.h"
#include "runtime/tensor/tensor.h"

namespace troupe::graph::onnx {

/// Where PyTorch's export writes a model that can be trained; the remedy of most refusals.
extern const char* const onnx_export_line;

/// A tensor of the file, by its description. Its elements are read on request.
struct StoredTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  onnx_wire::Tensor typed;            ///< with the elements of numbers fields, if it has those
  std::span<const std::byte> raw;     ///< little-endian elements in the file
  std::filesystem::path external;     ///< another file with the elements; empty: this one
  std::uint64_t external_offset = 0;  ///< bytes
};

/// A parsed file. Immutable; usable from any thread.
struct File {
  std::string origin;                      ///< for messages: the path
  std::shared_ptr<const void> owner;       ///< keeps the bytes that `raw` views
  onnx_wire::Model model;                  ///< its graph has no initializers
  std::vector<StoredTensor> initializers;  ///< each name once
};

/// Whether bytes begin with a version, and have a graph after fields of any kind.
bool begins_as_model(std::span<const std::byte> bytes);

/// Throws Error (bad_file) if the bytes are no ONNX model, or a tensor's elements are not within
/// the file or within a file beside it; Error (unsupported) for tensors of text and sparse ones,
/// for nested functions and files that are not PyTorch's kind of graph; Error (io).
/// Memory: a small multiple of the file's size without its initializers, which is at most 64 MiB.
File open_file(const std::filesystem::path& path);
/// The same from bytes, which must stay while the File is used if `owner` is null. External data
/// is looked for in `folder`.
File parse_file(std::span<const std::byte> bytes, const std::string& origin,
                const std::filesystem::path& folder, std::shared_ptr<const void> owner = nullptr);

/// The elements of a tensor in new memory, row-major. Throws Error (bad_file, io).
Tensor read_tensor(const StoredTensor& tensor);
/// The raw elements of a tensor that protobuf has read; data() is null if it has none.
inline std::span<const std::byte> as_bytes_of(const onnx_wire::Tensor& tensor) {
  if (!tensor.has_raw_data()) return {};
  return std::as_bytes(std::span(tensor.raw_data()));
}
/// Checks a description, and where its elements are. `folder` is that of the model.
StoredTensor stored_tensor(onnx_wire::Tensor description, std::span<const std::byte> raw,
                           const std::string& origin, const std::filesystem::path& folder);

}  // namespace troupe::graph::onnx
