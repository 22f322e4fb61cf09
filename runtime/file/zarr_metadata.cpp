#include "runtime/file/zarr_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "runtime/error.h"
#include "runtime/file/json.h"
#include "runtime/text.h"

namespace troupe::zarr {
namespace {

using Json = nlohmann::json;

constexpr const char* write_plainly =
    "write it again as an array of integers, float32 or float64, uncompressed or with gzip, zstd "
    "or blosc";

struct KnownType {
  std::string_view format_2, format_3;
  DType dtype;
};
constexpr KnownType types[] = {
    {"u1", "uint8", DType::u8},    {"u2", "uint16", DType::u16}, {"u4", "uint32", DType::u32},
    {"u8", "uint64", DType::u64},  {"i1", "int8", DType::i8},    {"i2", "int16", DType::i16},
    {"i4", "int32", DType::i32},   {"i8", "int64", DType::i64},  {"f4", "float32", DType::f32},
    {"f8", "float64", DType::f64},
};

using KnownCodec = std::pair<std::string_view, Codec>;
constexpr KnownCodec codecs_of_format_2[] = {
    {"zlib", Codec::zlib}, {"gzip", Codec::gzip}, {"zstd", Codec::zstd}, {"blosc", Codec::blosc}};
constexpr KnownCodec codecs_of_format_3[] = {{"gzip", Codec::gzip},
                                             {"zstd", Codec::zstd},
                                             {"blosc", Codec::blosc},
                                             {"crc32c", Codec::crc32c}};

/// Each may add to a chunk, so that their number bounds the memory.
constexpr std::size_t most_codecs = 4;

/// The beginning of a value, for errors.
std::string shown(const Json& value) {
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace), 60);
}

[[noreturn]] void fail_for(const std::string& origin, const char* what, const Json& value,
                           const std::string& remedy = write_plainly) {
  fail(origin, fmt::format("its {} is {}, which is not read", what, shown(value)), remedy);
}

const std::string* text_of(const Json& value) {
  return value.is_string() ? &value.get_ref<const std::string&>() : nullptr;
}

bool is_swapped(std::endian order, DType dtype) {
  return size_of(dtype) > 1 && order != std::endian::native;
}

void read_sizes(const JsonObject& shape, const char* shape_key, const JsonObject& chunk,
                const char* chunk_key, Metadata& into, const std::string& origin) {
  const auto sizes = shape.unsigned_list_at(shape_key);
  const auto chunks = chunk.unsigned_list_at(chunk_key);
  if (sizes.empty() || sizes.size() > Shape::max_rank)
    fail(origin, fmt::format("it has {} axes", sizes.size()),
         fmt::format("reshape it to 1 to {} axes", Shape::max_rank));
  if (chunks.size() != sizes.size())
    fail(origin, fmt::format("it has {} axes, but its chunks {}", sizes.size(), chunks.size()));
  try {
    into.shape = Shape(std::vector<std::int64_t>(sizes.begin(), sizes.end()));
  } catch (const Error& error) {
    fail(origin, error.message());
  }
  const auto fitting = chunk_sizes(chunks, into.dtype);
  if (!fitting)
    fail(origin, fmt::format("its chunks have no or more than {} bytes", most_chunk_bytes),
         "write it again with chunks of a few samples");
  into.chunk = *fitting;
}

/// A floating-point number as JSON has it, or one of the texts for what JSON lacks; a text of
/// hexadecimal digits has the bits of the number.
template <class T>
std::optional<T> number_in(const Json& value) {
  using Limits = std::numeric_limits<T>;
  if (value.is_number()) return static_cast<T>(value.get<double>());
  const std::string* text = text_of(value);
  if (text == nullptr) return std::nullopt;
  if (*text == "NaN") return Limits::quiet_NaN();
  if (*text == "Infinity") return Limits::infinity();
  if (*text == "-Infinity") return -Limits::infinity();
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  Bits bits = 0;
  const char* end = text->data() + text->size();
  if (text->size() != 2 + 2 * sizeof(T) || !text->starts_with("0x")) return std::nullopt;
  const auto [stop, error] = std::from_chars(text->data() + 2, end, bits, 16);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return std::bit_cast<T>(bits);
}

template <class T>
std::optional<T> integer_in(const Json& value) {
  if (value.is_number_unsigned() && std::in_range<T>(value.get<std::uint64_t>()))
    return static_cast<T>(value.get<std::uint64_t>());
  if (value.is_number_integer() && !value.is_number_unsigned() &&
      std::in_range<T>(value.get<std::int64_t>()))
    return static_cast<T>(value.get<std::int64_t>());
  return std::nullopt;
}

void read_fill(const Json& value, Metadata& into, const std::string& origin) {
  into.fill.resize(size_of(into.dtype));
  if (value.is_null()) return;  // format 2: any value
  visit_element(into.dtype, [&]<class T>(std::type_identity<T>) {
    std::optional<T> fill;
    if constexpr (std::is_floating_point_v<T>)
      fill = number_in<T>(value);
    else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      fill = integer_in<T>(value);
    if (!fill)
      fail(origin, fmt::format("its fill value {} is no {}", shown(value), name_of(into.dtype)));
    std::memcpy(into.fill.data(), &*fill, sizeof(T));
  });
  if (into.swapped) swap_bytes(into.fill, into.fill.size());
}

char read_separator(const Json& value, const std::string& origin) {
  const std::string* text = text_of(value);
  if (text == nullptr || (*text != "." && *text != "/"))
    fail_for(origin, "separator of chunk keys", value);
  return text->front();
}

void read_type_of_format_2(const Json& value, Metadata& into, const std::string& origin) {
  const std::string* text = text_of(value);
  if (text == nullptr || text->empty()) fail_for(origin, "dtype", value);
  const std::string_view name = std::string_view(*text).substr(1);
  const auto* known = std::ranges::find(types, name, &KnownType::format_2);
  const char order = text->front();
  if (known == std::end(types)) fail_for(origin, "dtype", value);
  into.dtype = known->dtype;
  if (order != '<' && order != '>' && (order != '|' || size_of(into.dtype) > 1))
    fail_for(origin, "dtype", value);
  into.swapped = is_swapped(order == '>' ? std::endian::big : std::endian::little, into.dtype);
}

/// An extension point of format 3: a name and its configuration, or the name alone.
struct Extension {
  std::string name;
  Json configuration = Json::object();
};

Extension extension(const Json& value, const std::string& origin) {
  if (const std::string* text = text_of(value)) return {*text};
  Extension read{JsonObject(value, title(origin)).string_at("name")};
  if (const auto found = value.find("configuration"); found != value.end())
    read.configuration = *found;
  return read;
}

[[noreturn]] void refuse_codec(const std::string& name, const std::string& origin) {
  fail(origin, fmt::format("its codec '{}' is not read there", printable(name)),
       name == "sharding_indexed" ? "write it again without shards"
       : name == "transpose"      ? "write it again in the order C"
                                  : write_plainly);
}

Codec codec_named(std::span<const KnownCodec> known, const std::string& name,
                  const std::string& origin) {
  const auto found = std::ranges::find(known, name, &KnownCodec::first);
  if (found == known.end()) refuse_codec(name, origin);
  return found->second;
}

void read_codecs(const JsonObject& object, Metadata& into, const std::string& origin) {
  const Json& list = object.at("codecs");
  if (!list.is_array() || list.empty() || list.size() > 1 + most_codecs)
    fail_for(origin, "list of codecs", list);
  const Extension first = extension(list.front(), origin);  // elements to bytes
  if (first.name != "bytes") refuse_codec(first.name, origin);
  const Json order = first.configuration.is_object() ? first.configuration.value("endian", Json())
                                                     : first.configuration;
  if (order != "little" && order != "big" && (!order.is_null() || size_of(into.dtype) > 1))
    fail_for(origin, "byte order", order);
  into.swapped = is_swapped(order == "big" ? std::endian::big : std::endian::little, into.dtype);
  for (const Json& value : std::span(list.get_ref<const Json::array_t&>()).subspan(1))
    into.codecs.push_back(codec_named(codecs_of_format_3, extension(value, origin).name, origin));
}

void read_keys(const JsonObject& object, Metadata& into, const std::string& origin) {
  const Json& value = object.at("chunk_key_encoding");
  const Extension encoding = extension(value, origin);
  const bool usual = encoding.name == "default";
  if ((!usual && encoding.name != "v2") || !encoding.configuration.is_object())
    fail_for(origin, "chunk_key_encoding", value);
  into.separator =
      read_separator(encoding.configuration.value("separator", Json(usual ? "/" : ".")), origin);
  if (usual) into.key_prefix = std::string("c") + into.separator;
}

/// Format 3 lets members be added, which a reader may ignore only if they say so.
void check_members(const Json& json, const std::string& origin) {
  constexpr std::string_view known[] = {"zarr_format",
                                        "node_type",
                                        "shape",
                                        "data_type",
                                        "chunk_grid",
                                        "chunk_key_encoding",
                                        "fill_value",
                                        "codecs",
                                        "dimension_names",
                                        "attributes",
                                        "storage_transformers",
                                        "consolidated_metadata"};
  for (const auto& [name, value] : json.items())
    if (std::ranges::find(known, name) == std::end(known) &&
        !(value.is_object() && value.value("must_understand", Json()) == false))
      fail(origin, fmt::format("its member '{}' is not known", printable(name)), write_plainly);
  if (const Json transformers = json.value("storage_transformers", Json::array());
      !transformers.empty())
    fail_for(origin, "list of storage_transformers", transformers);
}

void check_format(const JsonObject& object, std::uint64_t format, const std::string& origin) {
  if (const std::uint64_t stated = object.unsigned_at("zarr_format"); stated != format)
    fail(origin, fmt::format("its format is {}, not {}", stated, format));
}

}  // namespace

std::string Metadata::key(const ChunkedArray::Place& first) const {
  std::string key = key_prefix;
  for (std::size_t axis = 0; axis < chunk.size(); ++axis) {
    if (axis > 0) key += separator;
    key += std::to_string(first[axis] / chunk[axis]);
  }
  return key;
}

Metadata::Named Metadata::named_by(std::string_view path) const {
  const std::string below = std::string(path) + '/';  // as a folder begins a key
  if (below == key_prefix) return Named::folder_of_chunks;
  if (!path.starts_with(key_prefix)) return Named::nothing;
  const char* at = path.data() + key_prefix.size();
  const char* const end = path.data() + path.size();
  ChunkedArray::Place first{};
  for (std::size_t axis = 0; axis < chunk.size(); ++axis) {
    std::int64_t number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    const std::int64_t last = (shape.dim(static_cast<int>(axis)) - 1) / chunk[axis];
    if (error != std::errc{} || number < 0 || number > last) return Named::nothing;
    first[axis] = number * chunk[axis];
    if (rest == end) {
      // key() has numbers without further zeroes.
      if (axis + 1 == chunk.size()) return key(first) == path ? Named::chunk : Named::nothing;
      return key(first).starts_with(below) ? Named::folder_of_chunks : Named::nothing;
    }
    if (*rest != separator) return Named::nothing;
    at = rest + 1;
  }
  return Named::nothing;
}

Metadata parse_format_2(std::string_view text, const std::string& origin) {
  const Json json = parse_json(text, title(origin));
  const JsonObject object(json, title(origin));
  check_format(object, 2, origin);
  Metadata metadata;
  read_type_of_format_2(object.at("dtype"), metadata, origin);
  read_sizes(object, "shape", object, "chunks", metadata, origin);
  if (const Json& order = object.at("order"); order != "C" && metadata.shape.rank() > 1)
    fail_for(origin, "order", order, "write it again in the order C");
  if (const Json filters = json.value("filters", Json()); !filters.empty())
    fail_for(origin, "list of filters", filters);
  if (const Json& compressor = object.at("compressor"); !compressor.is_null())
    metadata.codecs = {codec_named(codecs_of_format_2,
                                   JsonObject(compressor, title(origin)).string_at("id"), origin)};
  metadata.separator = read_separator(json.value("dimension_separator", Json(".")), origin);
  read_fill(object.at("fill_value"), metadata, origin);
  return metadata;
}

Metadata parse_format_3(std::string_view text, const std::string& origin) {
  const Json json = parse_json(text, title(origin));
  const JsonObject object(json, title(origin));
  check_format(object, 3, origin);
  if (object.string_at("node_type") != "array") fail_as_group(origin);
  check_members(json, origin);
  Metadata metadata;
  const Json& type = object.at("data_type");
  const std::string type_name = extension(type, origin).name;
  const auto* known = std::ranges::find(types, type_name, &KnownType::format_3);
  if (known == std::end(types)) fail_for(origin, "data_type", type);
  metadata.dtype = known->dtype;
  const Extension grid = extension(object.at("chunk_grid"), origin);
  if (grid.name != "regular")
    fail(origin, fmt::format("its chunk_grid is '{}'", printable(grid.name)),
         "write it again with chunks of one size");
  read_sizes(object, "shape", JsonObject(grid.configuration, title(origin)), "chunk_shape",
             metadata, origin);
  read_keys(object, metadata, origin);
  read_codecs(object, metadata, origin);
  read_fill(object.at("fill_value"), metadata, origin);
  return metadata;
}

void fail_as_group(const std::string& origin) {
  fail(origin, "it is a group, not an array", "name an array in it, with its path");
}

}  // namespace troupe::zarr
