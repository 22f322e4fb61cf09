#pragma once
// IDX, the format of MNIST and similar data sets: two zero bytes, a type code, the number of axes,
// the axes as big-endian u32, then the elements (http://yann.lecun.com/exdb/mnist/).

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "runtime/tensor/tensor.h"

namespace troupe {

/// The u8 tensor in an IDX file, plain or gzipped (detected by content, not by name).
///
/// Throws Error (io) if the file cannot be opened, and Error (bad_file) if it is of another kind,
/// has other elements than u8, is truncated, has bytes after its data or states more than its size
/// can hold. It allocates at most 1032 times the file's size (gzip's limit) before an error.
Tensor read_idx(const std::filesystem::path& path);

/// The same from memory; errors name it as `origin`. The result owns its data.
Tensor parse_idx(std::span<const std::byte> bytes, const std::string& origin);

/// The shape in the file's header, checked against the file's size. Reads the header only.
Shape read_idx_shape(const std::filesystem::path& path);

/// The first `rows` along the outermost axis; the rest of the file is neither decompressed nor
/// checked. For data sets: whole gzip files are decompressed in one call, in half the time, and the
/// memory is not from the caching allocator, whose counters are for steps. Throws as read_idx, and
/// bad_shape if the file has fewer rows.
Tensor read_idx_rows(const std::filesystem::path& path, std::int64_t rows);

}  // namespace troupe
