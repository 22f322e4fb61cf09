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

/// An opened file, of which the header is read and each tensor when it is asked for. A cheap
/// handle; usable from any thread.
class SafetensorsFile {
 public:
  /// Strict: throws Error (bad_file) with file, tensor and values where the header is longer than
  /// the file or than 100,000,000 bytes, is not a JSON object or names something twice; where
  /// shape, element type and offsets disagree; where tensors overlap or leave holes; where bytes
  /// follow. Error (unsupported) for element types that Troupe has none for (C64, F8_*) and ranks
  /// above 6. Error (io) as InputFile::open.
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::vector<TensorInfo>& tensors() const;  ///< in the order of their bytes in the file
  /// "__metadata__"; mostly {"format": "pt"}.
  const std::map<std::string, std::string>& metadata() const;
  /// A tensor in memory of its own. Throws Error: bad_file for a name that is not there and for
  /// what is no truth value in a BOOL; io.
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

/// For programs: every tensor of a file, as strictly. They view the mapped file, so nothing is read
/// before it is looked at (but truth values, which are checked), and all that was looked at stays
/// in memory.
Safetensors read_safetensors(const std::filesystem::path& path);

/// The same from memory that `owner` keeps alive; with a null owner the caller does. Tensors that
/// are not aligned to their element size are copied. Errors call the bytes `origin`.
Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& origin,
                              std::shared_ptr<const void> owner = nullptr);

/// Writes row-major CPU tensors, byte for byte as the Python library does: by element type, widest
/// first, then by name; the header padded to a multiple of 8. Atomic (write_file). Holds one tensor
/// of `source` at a time.
///
/// Throws Error (internal) on names that appear twice and on tensors that are not as `source` says;
/// returns what the file system refused.
Status stream_safetensors(const std::filesystem::path& path, const TensorSource& source,
                          const std::map<std::string, std::string>& metadata = {},
                          const WriteHook& hook = {});
/// For programs: the same of tensors in memory.
Status write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                         const std::map<std::string, std::string>& metadata = {},
                         const WriteHook& hook = {});

}  // namespace troupe
