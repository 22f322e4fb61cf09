#pragma once
// One number for a set of weights, independent of their storage.

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/tensor/named_tensor.h"

namespace troupe {

/// The SHA-256 of weights and buffers, as 64 lower-case hexadecimal digits.
///
/// Tensors whose names begin with "optimizer." are left out; the others follow in the order of the
/// bytes of their names. For each, with numbers as little-endian u64:
///
///   length of the name, the name; length of the type's name, the type's name ("f32": name_of);
///   rank, each axis; then the elements, row-major and little-endian.
///
/// Tensors must be row-major on the CPU and have unique names, else Error (internal). For programs
/// that hold the tensors in memory; digest_of reads files.
std::string digest(const std::vector<NamedTensor>& tensors);

/// SHA-256 of a text, as 64 hexadecimal digits.
std::string text_digest(const std::string& text);

/// The same for the content of `path`: a safetensors file, the weights of a PyTorch file or of a
/// folder of torch.distributed.checkpoint, a checkpoint's folder, or an output folder (its newest
/// complete checkpoint). Reads one tensor at a time. Throws as those readers.
std::string digest_of(const std::filesystem::path& path);

}  // namespace troupe
