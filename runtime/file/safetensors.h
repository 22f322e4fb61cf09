#pragma once
// safetensors: the format for weights that Python programs read and write.
// Layout (https://github.com/huggingface/safetensors): u64 N; N bytes of JSON, padded with spaces;
// then the elements, little-endian and row-major, without gaps.

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

/// An open file: the header is read at once, each tensor on request. A cheap handle; usable from
/// any thread.
class SafetensorsFile {
 public:
  /// Strict. Throws Error (bad_file) with file, tensor and values if the header is longer than the
  /// file or than 100,000,000 bytes, is not a JSON object or has repeated names; if shape, element
  /// type and offsets disagree; if tensors overlap or leave gaps; if bytes follow. Throws Error
  /// (unsupported) for element types without a counterpart (C64, F8_*) and ranks above 6, and Error
  /// (io) as InputFile::open.
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::vector<TensorInfo>& tensors() const;  ///< in the order of their bytes in the file
  /// "__metadata__"; usually {"format": "pt"}.
  const std::map<std::string, std::string>& metadata() const;
  /// A tensor in new memory. Throws Error: bad_file for an unknown name and for a BOOL that is
  /// neither 0 nor 1; io.
  Tensor read(const std::string& name) const;
  TensorSource source() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

struct Safetensors {
  std::vector<NamedTensor> tensors;             ///< in the order of their bytes in the file
  std::map<std::string, std::string> metadata;  ///< as SafetensorsFile::metadata
};

/// For programs: every tensor of a file, with the same checks. The tensors view the mapped file, so
/// bytes are read at the first access (BOOLs at once, since they are checked) and then stay in
/// memory.
Safetensors read_safetensors(const std::filesystem::path& path);

/// The same from memory that `owner` keeps alive; with a null owner the caller does. Tensors that
/// are not aligned to their element size are copied. Errors name the bytes as `origin`.
Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& origin,
                              std::shared_ptr<const void> owner = nullptr);

/// Writes row-major CPU tensors, byte for byte as the Python library does: by element type, widest
/// first, then by name; the header padded to a multiple of 8. Atomic (write_file). Holds one tensor
/// of `source` at a time.
///
/// Throws Error (internal) for repeated names and for tensors that differ from what `source`
/// states. Returns an error of the file system.
Status stream_safetensors(const std::filesystem::path& path, const TensorSource& source,
                          const std::map<std::string, std::string>& metadata = {},
                          const WriteHook& hook = {});
/// For programs: the same of tensors in memory.
Status write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                         const std::map<std::string, std::string>& metadata = {},
                         const WriteHook& hook = {});

}  // namespace troupe
