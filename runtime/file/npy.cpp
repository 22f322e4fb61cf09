#include "runtime/file/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/error.h"
#include "runtime/file/file.h"

namespace troupe {
namespace {

constexpr std::string_view magic = "\x93NUMPY";

constexpr std::pair<std::string_view, DType> types[] = {
    {"u1", DType::u8},  {"u2", DType::u16}, {"u4", DType::u32}, {"u8", DType::u64},
    {"i1", DType::i8},  {"i2", DType::i16}, {"i4", DType::i32}, {"i8", DType::i64},
    {"f2", DType::f16}, {"f4", DType::f32}, {"f8", DType::f64}, {"b1", DType::boolean}};

[[noreturn]] void fail(const std::string& origin, const std::string& what,
                       const std::string& remedy) {
  throw Error(ErrorCode::bad_file, fmt::format("reading NumPy file '{}': {}", origin, what),
              remedy);
}

/// What the header states: a Python dictionary of three entries.
struct Header {
  std::string_view type;  ///< "<f4"
  bool fortran = false;
  std::vector<std::int64_t> dims;
};

/// Reads the dictionary from its text.
class HeaderText {
 public:
  HeaderText(std::string_view text, const std::string& origin) : rest_(text), origin_(origin) {}

  Header read() {
    Header header;
    bool type = false, order = false, shape = false;
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !std::exchange(type, true))
        header.type = read_type();
      else if (key == "fortran_order" && !std::exchange(order, true))
        header.fortran = read_order();
      else if (key == "shape" && !std::exchange(shape, true))
        header.dims = read_shape();
      else
        damaged();
      take(',');
    }
    skip_space();
    if (!type || !order || !shape || !rest_.empty()) damaged();
    return header;
  }

 private:
  [[noreturn]] void damaged() const {
    fail(origin_, fmt::format("its header is not understood at '{}'", rest_.substr(0, 40)),
         "the file is damaged: write it again with numpy.save");
  }
  void skip_space() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n"), rest_.size()));
  }
  bool take(char wanted) {
    skip_space();
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) damaged();
  }
  std::string_view quoted() {
    skip_space();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    const auto end = rest_.find(quote, 1);
    if ((quote != '\'' && quote != '"') || end == rest_.npos) damaged();
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  std::string_view read_type() {
    skip_space();
    if (rest_.starts_with('['))
      fail(origin_, "its elements are structures", "save an array of plain numbers for each field");
    return quoted();
  }
  bool read_order() {
    skip_space();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true},
                                      std::pair<std::string_view, bool>{"False", false}})
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return value;
      }
    damaged();
  }
  std::vector<std::int64_t> read_shape() {
    std::vector<std::int64_t> dims;
    expect('(');
    while (!take(')')) {
      skip_space();
      std::int64_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc{}) damaged();
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      dims.push_back(size);
      take(',');
    }
    return dims;
  }

  std::string_view rest_;
  const std::string& origin_;
};

/// The text of the header, and where the elements begin.
std::pair<std::string_view, std::size_t> split(std::span<const std::byte> bytes,
                                               const std::string& origin) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(magic))
    fail(origin, "it does not begin with \\x93NUMPY", "give a file that numpy.save has written");
  const std::size_t version = magic.size();
  if (text.size() < version + 2) fail(origin, "it ends within its header", "write it again");
  const auto major = static_cast<unsigned char>(text[version]);
  if (major < 1 || major > 3)
    fail(origin, fmt::format("its format has the version {}", major),
         "only versions 1 to 3 are read: write it again with numpy.save");
  const std::size_t width = major == 1 ? 2 : 4;  // of the header's length, little-endian
  const std::size_t begin = version + 2 + width;
  if (text.size() < begin) fail(origin, "it ends within its header", "write it again");
  std::size_t length = 0;
  for (std::size_t i = 0; i < width; ++i)
    length |= static_cast<std::size_t>(static_cast<unsigned char>(text[version + 2 + i])) << 8 * i;
  if (length > npy_longest_header - begin)
    fail(origin,
         fmt::format("its header has {} bytes, more than one of an array of numbers", length),
         "save an array of plain numbers");
  if (length > text.size() - begin)
    fail(origin, fmt::format("its header has {} bytes, but {} follow", length, text.size() - begin),
         "the file is truncated: write it again");
  return {text.substr(begin, length), begin + length};
}

DType type_of(std::string_view descr, const std::string& origin) {
  const char order = descr.empty() ? '\0' : descr.front();
  const bool ordered = order == '<' || order == '|' || order == '=';
  for (const auto& [name, type] : types)
    if (ordered && descr.substr(1) == name)
      return type;
    else if (order == '>' && descr.substr(1) == name)
      fail(origin, fmt::format("its elements are big-endian ({})", descr),
           "convert it with array.astype(array.dtype.newbyteorder('<'))");
  fail(origin, fmt::format("its elements have the type '{}'", descr.substr(0, 40)),
       "save numbers: integers, float32 or float64");
}

Shape shape_of(const Header& header, const std::string& origin) {
  if (header.dims.size() > static_cast<std::size_t>(Shape::max_rank))
    fail(origin, fmt::format("it has {} axes, more than {}", header.dims.size(), Shape::max_rank),
         "reshape it");
  // In the same order as C's if at most one axis is longer than 1.
  const auto longer = std::ranges::count_if(header.dims, [](auto size) { return size > 1; });
  if (header.fortran && longer > 1)
    fail(origin, "its elements are in Fortran's order", "save numpy.ascontiguousarray(array)");
  try {
    return Shape(header.dims);
  } catch (const Error& error) {
    fail(origin, "its header is invalid: " + error.message(), "the file is damaged");
  }
}

}  // namespace

NpyHeader read_npy_header(std::span<const std::byte> beginning, std::uint64_t file_bytes,
                          const std::string& origin) {
  const auto [text, begin] = split(beginning, origin);
  const Header header = HeaderText(text, origin).read();
  const DType dtype = type_of(header.type, origin);
  const Shape shape = shape_of(header, origin);
  // Divided, so that no shape overflows.
  const std::uint64_t data_bytes = file_bytes - begin, width = size_of(dtype);
  const auto elements = static_cast<std::uint64_t>(shape.element_count());
  if (data_bytes % width != 0 || data_bytes / width != elements)
    fail(origin,
         fmt::format("its header states {} {}, but {} bytes follow", to_string(shape),
                     name_of(dtype), data_bytes),
         "the file is truncated or damaged: write it again");
  return {shape, dtype, begin};
}

Tensor parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                 const std::string& origin) {
  const auto [shape, dtype, begin] = read_npy_header(bytes, bytes.size(), origin);
  const std::span<const std::byte> data = bytes.subspan(begin);
  if (data.empty()) return Tensor::empty(shape, dtype, Device::cpu());
  if (reinterpret_cast<std::uintptr_t>(data.data()) % size_of(dtype) != 0) {
    Tensor copy = Tensor::empty(shape, dtype, Device::cpu());
    std::memcpy(copy.raw(), data.data(), data.size());
    return copy;
  }
  auto storage =
      Storage::wrap(const_cast<std::byte*>(data.data()), data.size(), Device{}, std::move(owner));
  return Tensor::view(std::move(storage), 0, shape, dtype);
}

Tensor read_npy(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return parse_npy(file->bytes(), file, path.string());
}

}  // namespace troupe
