#pragma once
// IDX, the format of MNIST and its relatives: two zero bytes, a type code, the number of axes, the
// axes as big-endian u32, then the elements (http://yann.lecun.com/exdb/mnist/).

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "runtime/tensor/tensor.h"

namespace troupe {

/// The u8 tensor in an IDX file, plain or gzipped (told apart by content, not by name).
///
/// Throws Error (io) where the file cannot be opened, and Error (bad_file) where it is of another
/// kind, holds other elements than u8, is cut off, goes on after its data or promises more than
/// its size can hold. Memory taken before a refusal is at most 1032 times the file (gzip's limit).
Tensor read_idx(const std::filesystem::path& path);

/// The same from memory; errors call it `origin`. The result owns its data.
Tensor parse_idx(std::span<const std::byte> bytes, const std::string& origin);

/// The shape that the file's header promises, held against its size. Reads nothing else.
Shape read_idx_shape(const std::filesystem::path& path);

/// The first `rows` along the outermost axis; where these are fewer than all, the rest of the file
/// is neither unpacked nor checked. For data sets: whole gzip files are unpacked in one go, in half
/// the time, and the memory is the tensor's own instead of the caching allocator's, whose counters
/// speak of steps. Throws as read_idx; bad_shape where the file has fewer rows.
Tensor read_idx_rows(const std::filesystem::path& path, std::int64_t rows);

}  // namespace troupe
