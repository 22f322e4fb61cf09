#include "runtime/file/safetensors.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <tuple>

#include "runtime/file/json.h"
#include "runtime/file/writable.h"

namespace troupe {
namespace {

constexpr std::uint64_t largest_header = 100'000'000;
constexpr std::size_t length_bytes = 8;
constexpr const char* metadata_key = "__metadata__";

struct Spelling {
  DType dtype;
  const char* name;
};
// The reference library's order of types, which is the order of tensors in a file it writes.
constexpr std::array<Spelling, 13> spellings{{{DType::u64, "U64"},
                                              {DType::i64, "I64"},
                                              {DType::f64, "F64"},
                                              {DType::f32, "F32"},
                                              {DType::u32, "U32"},
                                              {DType::i32, "I32"},
                                              {DType::bf16, "BF16"},
                                              {DType::f16, "F16"},
                                              {DType::u16, "U16"},
                                              {DType::i16, "I16"},
                                              {DType::i8, "I8"},
                                              {DType::u8, "U8"},
                                              {DType::boolean, "BOOL"}}};

std::size_t rank_of(DType dtype) {
  const auto found = std::find_if(spellings.begin(), spellings.end(),
                                  [&](const Spelling& s) { return s.dtype == dtype; });
  return static_cast<std::size_t>(found - spellings.begin());
}

/// What the header says of one tensor; offsets count from the end of the header.
struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  std::uint64_t begin;
  std::uint64_t end;
};
struct Header {
  std::vector<Entry> entries;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
};

DType parse_dtype(const JsonObject& object, const std::string& where) {
  const std::string name = object.string_at("dtype");
  for (const Spelling& spelling : spellings)
    if (name == spelling.name) return spelling.dtype;
  throw Error(ErrorCode::unsupported, fmt::format("{}: element type '{}'", where, name),
              "convert the tensor to one of F64, F32, BF16, F16, an integer type or BOOL");
}

Shape parse_shape(const JsonObject& object, const std::string& where) {
  const std::vector<std::uint64_t> sizes = object.unsigned_list_at("shape");
  if (sizes.size() > Shape::max_rank)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: {} axes, more than {}", where, sizes.size(), Shape::max_rank),
                "reshape the tensor before it is saved");
  std::vector<std::int64_t> dims;
  for (std::uint64_t size : sizes) {
    if (size > std::uint64_t{1} << 62) object.fail(fmt::format("an axis of {} elements", size));
    dims.push_back(static_cast<std::int64_t>(size));
  }
  try {
    return Shape(dims);
  } catch (const Error& error) {
    object.fail(error.message());
  }
}

Entry parse_entry(const std::string& name, const nlohmann::json& value, const std::string& origin) {
  const std::string where = fmt::format("'{}': tensor '{}'", origin, name);
  const JsonObject object(value, where);
  object.expect_members(3);
  Entry entry{name, parse_dtype(object, where), parse_shape(object, where), 0, 0};
  const std::vector<std::uint64_t> offsets = object.unsigned_list_at("data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    object.fail("'data_offsets' must be two numbers, begin before end");
  entry.begin = offsets[0];
  entry.end = offsets[1];
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(entry.shape.element_count()) * size_of(entry.dtype);
  if (entry.end - entry.begin != bytes)
    object.fail(fmt::format("{} {} needs {} bytes, its offsets [{}, {}) span {}",
                            name_of(entry.dtype), to_string(entry.shape), bytes, entry.begin,
                            entry.end, entry.end - entry.begin));
  return entry;
}

[[noreturn]] void fail(const std::string& origin, const std::string& what) {
  throw Error(
      ErrorCode::bad_file, fmt::format("reading '{}': {}", origin, what),
      "give a complete safetensors file: this file is damaged, truncated or of another format");
}

/// The length that the first 8 of a file's bytes claim for the header.
std::uint64_t header_length(std::span<const std::byte> first, std::uint64_t file_bytes,
                            const std::string& origin) {
  if (file_bytes < length_bytes)
    fail(origin, fmt::format("{} bytes are too few for a header", file_bytes));
  std::uint64_t length = 0;
  std::memcpy(&length, first.data(), length_bytes);
  if (length > largest_header)
    fail(origin, fmt::format("its header claims {} bytes, more than {}", length, largest_header));
  if (length > file_bytes - length_bytes)
    fail(origin, fmt::format("its header claims {} bytes, the file has {} after its first 8",
                             length, file_bytes - length_bytes));
  return length;
}

/// Sorts by place and refuses holes, overlaps and bytes that belong to no tensor.
void check_places(std::vector<Entry>& entries, std::uint64_t data_bytes,
                  const std::string& origin) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at)
      fail(origin,
           fmt::format("tensor '{}' begins at byte {} of the data, the one before ends at {}",
                       entry.name, entry.begin, at));
    at = entry.end;
  }
  if (at != data_bytes)
    fail(origin,
         fmt::format("its tensors end at byte {} of the data, the file has {}", at, data_bytes));
}

Header parse_header(std::string_view text, std::uint64_t file_bytes, const std::string& origin) {
  if (!text.starts_with('{')) fail(origin, "its header does not begin with '{'");
  const nlohmann::json json = parse_json(text, fmt::format("header of '{}'", origin));
  Header header;
  for (const auto& [name, value] : json.items()) {
    if (name == metadata_key)
      header.metadata = JsonObject(json, "'" + origin + "'").string_map_at(metadata_key);
    else
      header.entries.push_back(parse_entry(name, value, origin));
  }
  check_places(header.entries, file_bytes - length_bytes - text.size(), origin);
  return header;
}

void check_booleans(const Entry& entry, std::span<const std::byte> data,
                    const std::string& origin) {
  if (entry.dtype != DType::boolean) return;
  for (std::byte value : data)
    if (value > std::byte{1})
      fail(origin, fmt::format("tensor '{}' holds {} where 0 or 1 is possible", entry.name,
                               std::to_integer<int>(value)));
}

std::uint64_t bytes_of(const TensorInfo& info) {
  return static_cast<std::uint64_t>(info.shape.element_count()) * size_of(info.dtype);
}

/// The header as the reference library spells it, padded.
std::string header_text(const std::vector<TensorInfo>& tensors,
                        const std::map<std::string, std::string>& metadata,
                        const std::string& path) {
  std::string text;
  const auto add = [&](const std::string& key, const nlohmann::ordered_json& value) {
    text += text.empty() ? "{" : ",";
    text += dump_json(key, -1, path) + ':' + dump_json(value, -1, path);
  };
  if (!metadata.empty()) add(metadata_key, metadata);
  std::uint64_t at = 0;
  for (const TensorInfo& tensor : tensors) {
    add(tensor.name, {{"dtype", spellings[rank_of(tensor.dtype)].name},
                      {"shape", tensor.shape.dims()},
                      {"data_offsets", {at, at + bytes_of(tensor)}}});
    at += bytes_of(tensor);
  }
  text += text.empty() ? "{}" : "}";
  text.append((length_bytes - text.size() % length_bytes) % length_bytes, ' ');
  if (text.size() > largest_header)
    throw Error(ErrorCode::unsupported,
                fmt::format("writing '{}': a header of {} bytes is over the format's limit of {}",
                            path, text.size(), largest_header),
                "write the tensors to several files");
  return text;
}

}  // namespace

struct SafetensorsFile::State {
  InputFile file;
  std::uint64_t data_begin = 0;
  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors;
};

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  InputFile file = InputFile::open(path);
  const std::string origin = path.string();
  std::array<std::byte, length_bytes> first{};
  file.read_at(0, std::span(first).first(std::min<std::uint64_t>(length_bytes, file.size())));
  std::string text(header_length(first, file.size(), origin), '\0');
  file.read_at(length_bytes, std::as_writable_bytes(std::span(text)));
  Header header = parse_header(text, file.size(), origin);
  const auto state = std::make_shared<State>(State{.file = std::move(file),
                                                   .data_begin = length_bytes + text.size(),
                                                   .entries = {},
                                                   .metadata = std::move(header.metadata),
                                                   .tensors = {}});
  for (const Entry& entry : header.entries) {
    state->tensors.push_back({entry.name, entry.dtype, entry.shape});
    state->entries.emplace(entry.name, entry);
  }
  SafetensorsFile result;
  result.state_ = state;
  return result;
}

const std::vector<TensorInfo>& SafetensorsFile::tensors() const { return state_->tensors; }

const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return state_->metadata;
}

Tensor SafetensorsFile::read(const std::string& name) const {
  const std::string origin = state_->file.path().string();
  const auto found = state_->entries.find(name);
  if (found == state_->entries.end())
    throw Error(
        ErrorCode::bad_file,
        fmt::format("'{}' has no tensor '{}' among its {}", origin, name, state_->entries.size()),
        "the file belongs to another model, or its tensors have other names");
  const Entry& entry = found->second;
  Tensor tensor = Tensor::empty(entry.shape, entry.dtype, Device::cpu());
  const std::span<std::byte> into(tensor.raw(), tensor.bytes());
  state_->file.read_at(state_->data_begin + entry.begin, into);
  check_booleans(entry, into, origin);
  return tensor;
}

TensorSource SafetensorsFile::source() const {
  return {tensors(), [file = *this](const std::string& name) { return file.read(name); }};
}

Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& origin,
                              std::shared_ptr<const void> owner) {
  const std::uint64_t length = header_length(bytes, bytes.size(), origin);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + length_bytes, length);
  Header header = parse_header(text, bytes.size(), origin);
  Safetensors result{{}, std::move(header.metadata)};
  const std::span<const std::byte> data = bytes.subspan(length_bytes + length);
  // Tensors are never written by their readers; Storage has no const form.
  const auto storage =
      Storage::wrap(const_cast<std::byte*>(data.data()), data.size(), Device{}, std::move(owner));
  for (const Entry& entry : header.entries) {
    check_booleans(entry, data.subspan(entry.begin, entry.end - entry.begin), origin);
    Tensor tensor = Tensor::view(storage, entry.begin, entry.shape, entry.dtype);
    const bool aligned = reinterpret_cast<std::uintptr_t>(tensor.raw()) % size_of(entry.dtype) == 0;
    result.tensors.push_back({entry.name, aligned ? tensor : tensor.clone()});
  }
  return result;
}

Safetensors read_safetensors(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return parse_safetensors(file->bytes(), path.string(), file);
}

Status stream_safetensors(const std::filesystem::path& path, const TensorSource& source,
                          const std::map<std::string, std::string>& metadata,
                          const WriteHook& hook) {
  std::vector<TensorInfo> tensors = source.tensors;
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(rank_of(a.dtype), std::string_view(a.name)) <
           std::pair(rank_of(b.dtype), std::string_view(b.name));
  });
  writable::check_names(tensors, path, metadata_key);
  const std::string header = header_text(tensors, metadata, path.string());
  const std::uint64_t length = header.size();
  const auto produce = [&](OutputFile& file) -> Status {
    Status status = file.write_at(0, std::as_bytes(std::span(&length, 1)));
    if (status) status = file.write_at(length_bytes, as_bytes(header));
    std::uint64_t at = length_bytes + header.size();
    for (const TensorInfo& info : tensors) {
      if (!status) break;
      const Tensor tensor = source.read(info.name);
      writable::check(info, tensor, path);
      status = file.write_at(at, {tensor.raw(), tensor.bytes()});
      at += tensor.bytes();
    }
    return status;
  };
  return write_file(path, produce, hook);
}

Status write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                         const std::map<std::string, std::string>& metadata,
                         const WriteHook& hook) {
  return stream_safetensors(path, TensorSource::of(tensors), metadata, hook);
}

}  // namespace troupe
