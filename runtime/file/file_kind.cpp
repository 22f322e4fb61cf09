#include "runtime/file/file_kind.h"

#include <fmt/format.h>

#include <string_view>

#include "runtime/file/file.h"
#include "runtime/file/torch_file.h"

namespace troupe {
namespace {

using std::string_view_literals::operator""sv;

struct Beginning {
  FileKind kind;
  std::string_view bytes;
};
constexpr Beginning beginnings[] = {
    {FileKind::gzip, "\x1f\x8b"sv},         {FileKind::torch_zip, "PK\x03\x04"sv},
    {FileKind::numpy, "\x93NUMPY"sv},       {FileKind::hdf5, "\x89HDF\r\n"sv},
    {FileKind::png, "\x89PNG\r\n\x1a\n"sv}, {FileKind::jpeg, "\xff\xd8\xff"sv},
};

unsigned byte(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

// Two zero bytes, a type, a rank. A safetensors file of 64 KiB or more of header could begin with
// two zero bytes too, but its fourth to seventh byte are then hardly a type and a rank.
bool is_idx(std::string_view text) {
  constexpr unsigned u8_type = 0x08, f64_type = 0x0e, most_axes = 8;
  return text.starts_with("\0\0"sv) && byte(text, 2) >= u8_type && byte(text, 2) <= f64_type &&
         byte(text, 3) >= 1 && byte(text, 3) <= most_axes;
}

// The header's length in eight bytes, then the header, a JSON object.
bool is_safetensors(std::string_view text) { return byte(text, 8) == '{'; }

// PROTO and a version: how every pickle since protocol 2 begins.
bool is_pickle(std::string_view text) {
  return byte(text, 0) == 0x80 && byte(text, 1) >= 2 && byte(text, 1) <= 5;
}

std::string_view name_of(FileKind kind) {
  switch (kind) {
    case FileKind::safetensors:
      return "a safetensors file";
    case FileKind::idx:
      return "an IDX file: images or labels";
    case FileKind::gzip:
      return "compressed by gzip";
    case FileKind::empty:
      return "an empty file";
    case FileKind::torch_zip:
      return "a zip archive";
    case FileKind::torch_pickle:
      return "a Python pickle, as PyTorch wrote it before 1.6";
    case FileKind::numpy:
      return "a NumPy array";
    case FileKind::hdf5:
      return "an HDF5 file";
    case FileKind::png:
      return "a PNG image";
    case FileKind::jpeg:
      return "a JPEG image";
    case FileKind::unknown:
      break;
  }
  return "a file of an unknown kind";
}

}  // namespace

FileKind file_kind(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()),
                              file->bytes().size());
  if (text.empty()) return FileKind::empty;
  if (is_idx(text)) return FileKind::idx;
  for (const auto& [kind, bytes] : beginnings)
    if (text.starts_with(bytes)) return kind;
  if (is_safetensors(text)) return FileKind::safetensors;
  return is_pickle(text) ? FileKind::torch_pickle : FileKind::unknown;
}

Error foreign_file(const std::filesystem::path& path, FileKind kind, std::string_view readable) {
  const std::string name = path.string();
  if (kind == FileKind::torch_pickle)
    return {ErrorCode::bad_file,
            fmt::format("{} is {}, which is not supported", name, name_of(kind)),
            "to convert it: " + legacy_conversion(name)};
  return {ErrorCode::bad_file, fmt::format("{} is {}", name, name_of(kind)),
          fmt::format("give {}", readable)};
}

}  // namespace troupe
