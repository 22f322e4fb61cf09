// Tensors of ONNX files: their descriptions are checked when the file is opened, their elements
// read when they are used.

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "ops/graph/onnx_file.h"
#include "runtime/file/file.h"
#include "runtime/text.h"

namespace troupe::graph::onnx {
namespace {

namespace fs = std::filesystem;

// TensorProto.DataType; 8 is text, 14 and 15 are complex, above 16 are 8 bits or fewer.
constexpr std::array<std::optional<DType>, 17> element_types = {
    std::nullopt, DType::f32, DType::u8,    DType::i8,      DType::u16, DType::i16,
    DType::i32,   DType::i64, std::nullopt, DType::boolean, DType::f16, DType::f64,
    DType::u32,   DType::u64, std::nullopt, std::nullopt,   DType::bf16};

[[noreturn]] void refuse(ErrorCode code, const std::string& origin, const std::string& name,
                         const std::string& what, std::string remedy = {}) {
  throw Error(code, fmt::format("{}: tensor '{}' {}", origin, printable(name), what),
              std::move(remedy));
}

constexpr const char* export_again = "the file is damaged: export it again";

Shape checked_shape(const onnx_wire::Tensor& d, const std::string& origin) {
  if (d.dims_size() > Shape::max_rank)
    refuse(ErrorCode::unsupported, origin, d.name(),
           fmt::format("has {} axes; at most {} are possible", d.dims_size(), Shape::max_rank));
  std::int64_t count = 1;
  for (const std::int64_t dim : d.dims()) {
    if (dim < 0 || (dim > 0 && count > std::numeric_limits<std::int64_t>::max() / 16 / dim))
      refuse(ErrorCode::bad_file, origin, d.name(), fmt::format("has an axis of size {}", dim),
             export_again);
    count *= dim;
  }
  return Shape(
      std::span<const std::int64_t>(d.dims().data(), static_cast<std::size_t>(d.dims_size())));
}

DType checked_type(const onnx_wire::Tensor& d, const std::string& origin) {
  const auto type = static_cast<std::size_t>(d.data_type());
  if (d.data_type() < 0 || type >= element_types.size() || !element_types[type])
    refuse(ErrorCode::unsupported, origin, d.name(),
           fmt::format("has elements of ONNX's type {}, which is text, complex, or of 8 bits or "
                       "fewer",
                       d.data_type()),
           "export the model with elements of f32, f64, bf16, f16 or integers");
  return *element_types[type];
}

/// The number of elements in the field of numbers that tensors of this type use.
std::int64_t typed_count(const onnx_wire::Tensor& d, DType type) {
  switch (type) {
    case DType::f32:
      return d.float_data_size();
    case DType::f64:
      return d.double_data_size();
    case DType::i64:
      return d.int64_data_size();
    case DType::u32:
    case DType::u64:
      return d.uint64_data_size();
    default:
      return d.int32_data_size();
  }
}

std::uint64_t number_in(const std::string& text, const std::string& origin,
                        const std::string& name) {
  std::uint64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9' || number > (std::uint64_t{1} << 58))
      refuse(
          ErrorCode::bad_file, origin, name,
          fmt::format("has external data at '{}', which is not a number of bytes", printable(text)),
          export_again);
    number = number * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return number;
}

fs::path external_path(const std::string& location, const fs::path& folder,
                       const std::string& origin, const std::string& name) {
  const bool plain = !location.empty() && location != "." && location != ".." &&
                     location.find_first_of(std::string_view("/\\\0", 3)) == location.npos;
  fs::path path = folder / fs::path(plain ? location : "");
  if (!plain || fs::is_symlink(fs::symlink_status(path)))
    refuse(ErrorCode::bad_file, origin, name,
           fmt::format("has its data in '{}'; only an ordinary file in the folder of the model is "
                       "read",
                       printable(location)),
           "export the model with external_data=False, or put its data file beside it");
  return path;
}

void place_external(StoredTensor& tensor, const onnx_wire::Tensor& d, const std::string& origin,
                    const fs::path& folder) {
  std::string location;
  std::uint64_t length = 0;
  bool has_length = false;
  for (const auto& entry : d.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset")
      tensor.external_offset = number_in(entry.value(), origin, tensor.name);
    if (entry.key() == "length") {
      length = number_in(entry.value(), origin, tensor.name);
      has_length = true;
    }
  }
  tensor.external = external_path(location, folder, origin, tensor.name);
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(tensor.shape.element_count()) * size_of(tensor.dtype);
  if (std::error_code ignored; !fs::exists(tensor.external, ignored))
    refuse(ErrorCode::bad_file, origin, tensor.name,
           fmt::format("has its elements in '{}', which does not exist", tensor.external.string()),
           "copy the data file that was exported with this model beside it, or export the model "
           "with external_data=False");
  const std::uint64_t file_bytes = InputFile::open(tensor.external).size();
  if ((has_length && length != bytes) || tensor.external_offset > file_bytes ||
      bytes > file_bytes - tensor.external_offset)
    refuse(
        ErrorCode::bad_file, origin, tensor.name,
        fmt::format("of {} needs {} bytes from {} on; {} has {} bytes{}", to_string(tensor.shape),
                    bytes, tensor.external_offset, tensor.external.string(), file_bytes,
                    has_length ? fmt::format(" and the file states {}", length) : ""),
        "copy the data file that was exported with this model beside it");
}

template <class T, class From>
void convert(const From& from, Tensor& into) {
  T* elements = reinterpret_cast<T*>(into.raw());
  for (int i = 0; i < from.size(); ++i) elements[i] = static_cast<T>(from[i]);
}

Tensor from_numbers(const StoredTensor& tensor) {
  Tensor result = Tensor::empty(tensor.shape, tensor.dtype, Device::cpu());
  const onnx_wire::Tensor& d = tensor.typed;
  switch (tensor.dtype) {
    case DType::f32:
      convert<float>(d.float_data(), result);
      break;
    case DType::f64:
      convert<double>(d.double_data(), result);
      break;
    case DType::i64:
      convert<std::int64_t>(d.int64_data(), result);
      break;
    case DType::u64:
      convert<std::uint64_t>(d.uint64_data(), result);
      break;
    case DType::u32:
      convert<std::uint32_t>(d.uint64_data(), result);
      break;
    case DType::i32:
      convert<std::int32_t>(d.int32_data(), result);
      break;
    case DType::boolean:
      convert<bool>(d.int32_data(), result);
      break;
    case DType::i8:
    case DType::u8:
      convert<std::uint8_t>(d.int32_data(), result);
      break;
    default:
      convert<std::uint16_t>(d.int32_data(), result);
      break;  // f16, bf16 as their bits
  }
  return result;
}

}  // namespace

StoredTensor stored_tensor(onnx_wire::Tensor description, std::span<const std::byte> raw,
                           const std::string& origin, const fs::path& folder) {
  StoredTensor tensor;
  tensor.name = description.name();
  tensor.shape = checked_shape(description, origin);
  tensor.dtype = checked_type(description, origin);
  if (description.data_location() == 1) {
    place_external(tensor, description, origin, folder);
    return tensor;
  }
  const std::int64_t count = tensor.shape.element_count();
  const std::uint64_t bytes = static_cast<std::uint64_t>(count) * size_of(tensor.dtype);
  if (raw.data() != nullptr || count == 0) {
    if (raw.size() != bytes)
      refuse(ErrorCode::bad_file, origin, tensor.name,
             fmt::format("of {} {} has {} bytes of elements, not {}", name_of(tensor.dtype),
                         to_string(tensor.shape), raw.size(), bytes),
             export_again);
    tensor.raw = raw;
    return tensor;
  }
  if (typed_count(description, tensor.dtype) != count)
    refuse(ErrorCode::bad_file, origin, tensor.name,
           fmt::format("of {} {} has {} elements, not {}", name_of(tensor.dtype),
                       to_string(tensor.shape), typed_count(description, tensor.dtype), count),
           export_again);
  tensor.typed = std::move(description);
  return tensor;
}

Tensor read_tensor(const StoredTensor& tensor) {
  if (tensor.external.empty() && tensor.raw.data() == nullptr) return from_numbers(tensor);
  Tensor result = Tensor::empty(tensor.shape, tensor.dtype, Device::cpu());
  if (!tensor.external.empty()) {
    const InputFile file = InputFile::open(tensor.external);
    file.read_at(tensor.external_offset, {result.raw(), result.bytes()});
  } else if (!tensor.raw.empty()) {
    std::memcpy(result.raw(), tensor.raw.data(), tensor.raw.size());
  }
  if (tensor.dtype == DType::boolean)
    for (const std::byte element : std::span(result.raw(), result.bytes()))
      if (element > std::byte{1})
        refuse(ErrorCode::bad_file, "the model", tensor.name,
               "has an element that is neither true nor false", export_again);
  return result;
}

}  // namespace troupe::graph::onnx
