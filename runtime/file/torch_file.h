#pragma once
// Weights in PyTorch's own files: what torch.save and torch.distributed.checkpoint have written.
// Pickles are read without running code (runtime/file/pickle.h).

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/error.h"
#include "runtime/file/file.h"
#include "runtime/tensor/named_tensor.h"

namespace troupe {

class ZipArchive;

/// The weights of a file, and what else it has.
struct TorchWeights {
  /// Those of one dictionary, in its order. A tensor that is read views the mapped file if it is
  /// contiguous there; it must not be written. Usable from any thread.
  TensorSource tensors;
  std::string part;  ///< "model_state_dict"; empty if it is the whole file
  /// Keys beside the tensors, such as "epoch", or "ema (weights)".
  std::vector<std::string> others;
  bool has_checksums = true;  ///< which each tensor is compared with when it is read
};

/// Opens a .pt or .pth file: its pickle is read at once, tensors on request. The dictionary is that
/// of find_state_dictionary; NumPy's scalars, optimizers and objects of any class beside the
/// weights are ignored.
///
/// Throws Error: io; bad_file for damage, for files that hold no dictionary of tensors or several,
/// and for files of other kinds with the line of Python that converts them (those from PyTorch
/// before 1.6, TorchScript); unsupported for big-endian files and for tensors that Troupe lacks
/// (sparse, quantized, complex). Memory: 300 times the size of the pickle at most.
///
/// `part`: the keys of the dictionary, joined by '.', such as "ema_state_dict"; empty: any. With a
/// '.' at its end it is a prefix of names, such as "student.": the tensors that have it, without
/// it.
TorchWeights open_torch_file(const std::filesystem::path& path, std::string_view part = {});
/// The same of bytes that `owner` keeps; with a null owner the caller does.
TorchWeights parse_torch_file(std::span<const std::byte> bytes, const std::string& origin,
                              std::shared_ptr<const void> owner = nullptr,
                              std::string_view part = {});

/// A file or folder, and the part of it that is meant.
struct TorchPath {
  std::filesystem::path path;
  std::string part;
};

/// "w.pt#ema_state_dict" is a part of w.pt, unless there is a file of that name.
TorchPath torch_path(const std::filesystem::path& path);

/// Whether a folder is one that torch.distributed.checkpoint has written.
bool is_distributed_checkpoint(const std::filesystem::path& folder);
/// Opens such a folder. Tensors that several processes have written are put together. Throws as
/// open_torch_file.
TorchWeights open_distributed_checkpoint(const std::filesystem::path& folder,
                                         std::string_view part = {});

/// Whether an archive of torch.save is a module that was pickled as a whole: an object of a class,
/// of which the file has no code. Throws Error as open_torch_file.
bool is_pickled_module(ZipArchive archive);

/// The line of Python that writes a module as a model that Troupe trains.
extern const char* const torch_export_line;
/// A command that saves what an expression of Python makes of the path `file`: as PATH.END.pt.
std::string weights_command(std::string_view expression, const std::string& path,
                            std::string_view end = "weights");

/// Whether a file begins as torch.save wrote it before PyTorch 1.6.
bool is_legacy_torch_file(std::span<const std::byte> bytes);
/// The command that converts such a file to NAME.new.pt.
std::string legacy_conversion(const std::string& path);

/// Writes row-major CPU tensors as torch.save does: torch.load(…, weights_only=True) gives an
/// OrderedDict of them, in the order of `source`, and can map the file (mmap=True). Elements begin
/// at multiples of 64 bytes. Atomic (write_file). Holds one tensor of `source` at a time.
///
/// Throws Error (internal) for repeated names and for tensors that differ from what `source`
/// states. Returns an error of the file system.
Status stream_torch_file(const std::filesystem::path& path, const TensorSource& source,
                         const WriteHook& hook = {});

}  // namespace troupe
