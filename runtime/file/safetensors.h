#pragma once
// safetensors: the format in which weights are exchanged with Python.
// Layout (https://github.com/huggingface/safetensors): u64 N; N bytes of JSON, padded with spaces;
// then the elements, little-endian and row-major, without holes.

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/file/file.h"
#include "runtime/tensor/named_tensor.h"

namespace troupe {

struct Safetensors {
  std::vector<NamedTensor> tensors;             ///< in the order of their bytes in the file
  std::map<std::string, std::string> metadata;  ///< "__metadata__"; mostly {"format": "pt"}
};

/// Every tensor of a file. They view the mapped file, so nothing is read before it is looked at.
///
/// Strict: throws Error (bad_file) with file, tensor and values where the header is longer than
/// the file or than 100,000,000 bytes, is not a JSON object or names something twice; where shape,
/// element type and offsets disagree; where tensors overlap or leave holes; where bytes follow.
/// Error (unsupported) for element types that Troupe has none for (C64, F8_*) and ranks above 6.
Safetensors read_safetensors(const std::filesystem::path& path);

/// The same from memory that `owner` keeps alive; with a null owner the caller does. Tensors that
/// are not aligned to their element size are copied. Errors call the bytes `origin`.
Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& origin,
                              std::shared_ptr<const void> owner = nullptr);

/// Writes row-major CPU tensors, byte for byte as the Python library does: by element type, widest
/// first, then by name; the header padded to a multiple of 8. Atomic (write_file).
///
/// Throws Error (internal) on names that appear twice; returns what the file system refused.
Status write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                         const std::map<std::string, std::string>& metadata = {},
                         const WriteHook& hook = {});

}  // namespace troupe
