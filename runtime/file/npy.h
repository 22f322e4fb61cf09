#pragma once
// NumPy's array files (.npy), versions 1.0 to 3.0:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "runtime/tensor/tensor.h"

namespace troupe {

/// The array in a file. Its memory is the file's, mapped and paged in as it is read.
///
/// Throws Error (io) if the file cannot be opened, and Error (bad_file) if it is of another kind,
/// is truncated, has bytes after its data, or holds what is not read: Python objects, structures,
/// complex numbers, text, big-endian numbers, and arrays of several axes in Fortran's order.
Tensor read_npy(const std::filesystem::path& path);

/// The same from memory that `owner` keeps; errors name it as `origin`. Elements that are not
/// aligned in memory are copied.
Tensor parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                 const std::string& origin);

/// No header of an array of numbers is longer, NumPy's magic number included.
inline constexpr std::size_t npy_longest_header = std::size_t{1} << 16;

/// What a file states before its elements.
struct NpyHeader {
  Shape shape;
  DType dtype = DType::f32;
  std::size_t begin = 0;  ///< of the elements in the file
};

/// The header of a file of `file_bytes`, of which `beginning` has all, or as much as the longest
/// header. Throws as parse_npy, also if the file's size is not what its header states.
NpyHeader read_npy_header(std::span<const std::byte> beginning, std::uint64_t file_bytes,
                          const std::string& origin);

}  // namespace troupe
