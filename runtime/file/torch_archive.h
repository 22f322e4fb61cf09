#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/file/pickle.h"
#include "runtime/file/torch_tensor.h"
#include "runtime/file/zip.h"

namespace troupe {

/// A zip archive that torch.save has written: a pickle, and one member for each storage of its
/// tensors. Immutable; usable from any thread.
class TorchArchive {
 public:
  /// Throws Error: bad_file for archives of another kind (TorchScript and torch.export with the
  /// line of Python that converts them, NumPy's) and for damage; unsupported for big-endian
  /// numbers. Runs no code of the pickle.
  explicit TorchArchive(ZipArchive zip);
  TorchArchive(const TorchArchive&) = delete;
  TorchArchive& operator=(const TorchArchive&) = delete;

  const std::string& origin() const { return zip_.origin(); }
  bool has_checksums() const { return zip_.has_checksums(); }
  const PickleValue& value() const { return pickle_->value(); }
  /// The elements of a tensor of this archive: a view of the archive where that is possible, else a
  /// copy. A storage is compared with its checksum when it is used first. Throws Error{bad_file}
  /// with `where`.
  Tensor read(const TorchTensor& tensor, const std::string& where) const;
  /// Throws Error{bad_file} if reading all of the tensors would copy or decompress many times the
  /// bytes of the archive: tensors may be any number of views of one storage.
  void check_copies(std::span<const TorchTensor> tensors) const;

 private:
  const ZipMember& storage_of(const TorchTensor& tensor) const;

  ZipArchive zip_;
  std::string folder_;  ///< of all members: "net/"
  /// Limit on a copy of a tensor: strides of 0 can repeat elements.
  std::uint64_t most_bytes_ = std::uint64_t{1} << 20;
  ZipContent program_;
  std::unique_ptr<const Pickle> pickle_;
  std::unique_ptr<std::atomic<bool>[]> verified_;  ///< one for each member
};

}  // namespace troupe
