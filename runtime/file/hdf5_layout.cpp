#include "runtime/file/hdf5_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "runtime/error.h"
#include "runtime/file/gzip.h"
#include "runtime/file/hdf5_library.h"

namespace troupe::hdf5 {
namespace {

constexpr const char* write_plainly =
    "write it again as an array of integers, float32 or float64, uncompressed or with gzip";

void read_type(const Id& set, SetLayout& layout, const std::string& origin) {
  const Id type(H5Dget_type(set.get()), H5Tclose);
  if (!type) fail(origin, "its type cannot be read: " + library_reason(), damaged);
  struct Known {
    hid_t little, big;
    DType dtype;
  };
  for (const Known& known :
       {Known{H5T_STD_U8LE, H5T_STD_U8BE, DType::u8}, Known{H5T_STD_I8LE, H5T_STD_I8BE, DType::i8},
        Known{H5T_STD_U16LE, H5T_STD_U16BE, DType::u16},
        Known{H5T_STD_I16LE, H5T_STD_I16BE, DType::i16},
        Known{H5T_STD_U32LE, H5T_STD_U32BE, DType::u32},
        Known{H5T_STD_I32LE, H5T_STD_I32BE, DType::i32},
        Known{H5T_STD_U64LE, H5T_STD_U64BE, DType::u64},
        Known{H5T_STD_I64LE, H5T_STD_I64BE, DType::i64},
        Known{H5T_IEEE_F32LE, H5T_IEEE_F32BE, DType::f32},
        Known{H5T_IEEE_F64LE, H5T_IEEE_F64BE, DType::f64}}) {
    const bool little = H5Tequal(type.get(), known.little) > 0;
    if (!little && H5Tequal(type.get(), known.big) <= 0) continue;
    layout.dtype = known.dtype;
    layout.swapped =
        size_of(known.dtype) > 1 && little != (std::endian::native == std::endian::little);
    return;
  }
  static constexpr const char* kinds[] = {"integers of an unusual form",
                                          "floating-point numbers of an unusual form",
                                          "times",
                                          "texts",
                                          "bit fields",
                                          "opaque bytes",
                                          "structures",
                                          "references",
                                          "booleans or other enumerations",
                                          "sequences of varying length",
                                          "arrays"};
  const auto kind = static_cast<std::size_t>(H5Tget_class(type.get()));
  fail(origin,
       fmt::format("its elements are {}",
                   kind < std::size(kinds) ? kinds[kind] : "of no known type"),
       write_plainly);
}

void read_shape(const Id& set, SetLayout& layout, const std::string& origin) {
  const Id space(H5Dget_space(set.get()), H5Sclose);
  const bool is_array = space && H5Sget_simple_extent_type(space.get()) == H5S_SIMPLE;
  const int rank = is_array ? H5Sget_simple_extent_ndims(space.get()) : 0;
  if (rank < 1 || rank > Shape::max_rank)
    fail(origin, fmt::format("it has {} axes", rank),
         fmt::format("reshape it to 1 to {} axes", Shape::max_rank));
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr);
  const std::vector<std::int64_t> dims(sizes.begin(), sizes.end());
  try {
    layout.shape = Shape(dims);
  } catch (const Error& error) {
    fail(origin, error.message(), damaged);
  }
}

void read_filters(const Id& creation, SetLayout& layout, const std::string& origin) {
  const int count = H5Pget_nfilters(creation.get());
  if (count < 0) fail(origin, "its filters cannot be read: " + library_reason(), damaged);
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter = H5Pget_filter2(creation.get(), static_cast<unsigned>(i), &flags,
                                               &values, nullptr, 0, nullptr, nullptr);
    const Filter known = filter == H5Z_FILTER_DEFLATE   ? Filter::deflate
                         : filter == H5Z_FILTER_SHUFFLE ? Filter::shuffle
                                                        : Filter::fletcher32;
    if (known == Filter::fletcher32 && filter != H5Z_FILTER_FLETCHER32)
      fail(origin, fmt::format("it has the filter number {}", static_cast<int>(filter)),
           write_plainly);
    if (std::ranges::count(layout.filters, known) > 0)
      fail(origin, fmt::format("it has the filter number {} twice", static_cast<int>(filter)),
           write_plainly);
    layout.filters.push_back(known);
  }
}

void read_chunk_sizes(const Id& creation, SetLayout& layout, const std::string& origin) {
  const int rank = layout.shape.rank();
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  if (H5Pget_chunk(creation.get(), rank, sizes.data()) != rank)
    fail(origin, "the sizes of its chunks cannot be read", damaged);
  const auto chunk =
      chunk_sizes(std::vector<std::uint64_t>(sizes.begin(), sizes.end()), layout.dtype);
  if (!chunk)
    fail(origin, fmt::format("its chunks have {} bytes or more", most_chunk_bytes),
         "write it again with chunks of a few samples");
  layout.chunk = *chunk;
  unsigned options = 0;
  if (H5Pget_chunk_opts(creation.get(), &options) < 0)
    fail(origin, "the properties of its chunks cannot be read", damaged);
  layout.filters_edges = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) == 0;
}

/// Compares the size of the elements with that of the file and of the memory.
void check_size(const Id& set, const SetLayout& layout, std::uint64_t file_bytes,
                const std::string& origin) {
  const auto elements = static_cast<std::uint64_t>(layout.shape.element_count());
  const std::uint64_t width = size_of(layout.dtype);
  const std::uint64_t stored = H5Dget_storage_size(set.get());
  const bool packed = std::ranges::count(layout.filters, Filter::deflate) > 0;
  if (stored > file_bytes || elements / (packed ? gzip_largest_ratio : 1) > stored / width)
    fail(origin,
         fmt::format("it states {} {}, but {} bytes are stored in a file of {}",
                     to_string(layout.shape), name_of(layout.dtype), stored, file_bytes),
         "the file is damaged, or a part of the array was never written: write it again");
}

}  // namespace

SetLayout layout_of(const Id& set, std::uint64_t file_bytes, const std::string& origin) {
  SetLayout layout;
  read_type(set, layout, origin);
  read_shape(set, layout, origin);
  const Id creation(H5Dget_create_plist(set.get()), H5Pclose);
  if (!creation) fail(origin, "its layout cannot be read: " + library_reason(), damaged);
  if (H5Pget_external_count(creation.get()) != 0)
    fail(origin, "its elements are in other files", "write them into this file");
  read_filters(creation, layout, origin);
  switch (H5Pget_layout(creation.get())) {
    case H5D_COMPACT:
      layout.kind = SetLayout::Kind::compact;
      break;
    case H5D_CONTIGUOUS:
      layout.kind = SetLayout::Kind::contiguous;
      break;
    case H5D_CHUNKED:
      layout.kind = SetLayout::Kind::chunked;
      read_chunk_sizes(creation, layout, origin);
      break;
    case H5D_VIRTUAL:
      fail(origin, "it is virtual: its elements are in other data sets",
           "write them into this one");
    default:
      fail(origin, "its layout is not known", damaged);
  }
  if (layout.shape.element_count() == 0) return layout;
  check_size(set, layout, file_bytes, origin);
  if (layout.kind != SetLayout::Kind::contiguous) return layout;
  const haddr_t offset = H5Dget_offset(set.get());
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(layout.shape.element_count()) * size_of(layout.dtype);
  if (offset == HADDR_UNDEF || offset > file_bytes || file_bytes - offset < bytes)
    fail(origin, fmt::format("its {} bytes are not within the file of {}", bytes, file_bytes),
         damaged);
  layout.offset = offset;
  return layout;
}

}  // namespace troupe::hdf5
