#include "ops/graph/onnx_file.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "runtime/file/file.h"
#include "runtime/text.h"

namespace troupe::graph::onnx {

const char* const onnx_export_line =
    "export it with torch.onnx.export(net.train(), (x,), \"net.onnx\", "
    "dynamic_shapes=({0: \"batch\"},), optimize=False, opset_version=23, external_data=False)";

namespace {

namespace fs = std::filesystem;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr std::size_t most_bytes = std::numeric_limits<std::int32_t>::max();  // of protobuf
constexpr std::size_t most_graph_bytes = std::size_t{64} << 20;  // without the initializers
constexpr int graph_field = 7, initializer_field = 5, raw_data_field = 9;

[[noreturn]] void refuse_damaged(const std::string& origin, const std::string& what) {
  throw Error(ErrorCode::bad_file, fmt::format("{}: {}", origin, what),
              "the file is damaged or not an ONNX model: export it again");
}

/// A message split by one of its fields: the occurrences of this field, and all other bytes.
struct Split {
  std::vector<std::span<const std::byte>> field;
  std::string rest;
};

/// Skips a field of a message, and returns whether it is one that can be skipped: not a group,
/// which nests.
bool skip_field(CodedInputStream& in, std::uint32_t tag) {
  std::uint64_t number = 0;
  std::uint32_t length = 0;
  switch (WireFormatLite::GetTagWireType(tag)) {
    case WireFormatLite::WIRETYPE_VARINT:
      return in.ReadVarint64(&number);
    case WireFormatLite::WIRETYPE_FIXED64:
      return in.Skip(8);
    case WireFormatLite::WIRETYPE_FIXED32:
      return in.Skip(4);
    case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
      return in.ReadVarint32(&length) && length <= most_bytes && in.Skip(static_cast<int>(length));
    default:
      return false;
  }
}

Split split(std::span<const std::byte> message, int field, const std::string& origin) {
  Split result;
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(message.data()),
                      static_cast<int>(message.size()));
  in.SetTotalBytesLimit(std::numeric_limits<int>::max());
  while (static_cast<std::size_t>(in.CurrentPosition()) < message.size()) {
    const auto begin = static_cast<std::size_t>(in.CurrentPosition());
    const std::uint32_t tag = in.ReadTag();
    const bool wanted =
        tag == WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
    std::uint32_t length = 0;
    if (tag == 0) refuse_damaged(origin, "is not a sequence of protobuf fields");
    if (!wanted) {
      if (!skip_field(in, tag)) refuse_damaged(origin, "has a field that ends after its message");
      const auto end = static_cast<std::size_t>(in.CurrentPosition());
      if (result.rest.size() + end - begin > most_graph_bytes)
        throw Error(ErrorCode::unsupported,
                    fmt::format("{}: the graph has more than {} bytes without its weights", origin,
                                most_graph_bytes),
                    "export large tensors as parameters or buffers, not as constants");
      result.rest.append(reinterpret_cast<const char*>(message.data()) + begin, end - begin);
      continue;
    }
    if (!in.ReadVarint32(&length) || length > message.size() || !in.Skip(static_cast<int>(length)))
      refuse_damaged(origin, "has a field that ends after its message");
    const auto end = static_cast<std::size_t>(in.CurrentPosition());
    result.field.push_back(message.subspan(end - length, length));
  }
  return result;
}

template <class Message>
void parse_message(Message& message, const std::string& bytes, const std::string& origin) {
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    refuse_damaged(origin, "has fields of another type than ONNX's");
}

StoredTensor initializer_of(std::span<const std::byte> message, const std::string& origin,
                            const fs::path& folder) {
  const Split parts = split(message, raw_data_field, origin);
  if (parts.field.size() > 1) refuse_damaged(origin, "has an initializer with two contents");
  onnx_wire::Tensor description;
  parse_message(description, parts.rest, origin);
  return stored_tensor(std::move(description),
                       parts.field.empty() ? std::span<const std::byte>() : parts.field.front(),
                       origin, folder);
}

void check_kind(const File& file) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::unsupported, fmt::format("{}: {}", file.origin, what), onnx_export_line);
  };
  if (file.model.functions_size() > 0)
    refuse(
        fmt::format("has {}, which is not read", counted(file.model.functions_size(), "function")));
  if (file.model.graph().sparse_initializer_size() > 0) refuse("has sparse tensors");
  for (const auto& set : file.model.opset_import()) {
    if (!set.domain().empty() && set.domain() != "ai.onnx") continue;  // matters if a node uses it
    if (set.version() < 18 || set.version() > 23)
      refuse(fmt::format("uses version {} of ONNX's operators; versions 18 to 23 are read",
                         set.version()));
  }
}

}  // namespace

bool begins_as_model(std::span<const std::byte> bytes) {
  constexpr std::uint32_t version = 0x08, graph = 0x3a;  // fields 1 and 7 with their wire types
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                      static_cast<int>(std::min(bytes.size(), most_bytes)));
  std::uint32_t tag = in.ReadTag();
  if (tag != version) return false;
  while (tag != 0 && tag != graph && skip_field(in, tag)) tag = in.ReadTag();
  return tag == graph;
}

File parse_file(std::span<const std::byte> bytes, const std::string& origin, const fs::path& folder,
                std::shared_ptr<const void> owner) {
  if (bytes.size() > most_bytes)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{}: {} bytes; an ONNX file has at most {}", origin, bytes.size(), most_bytes),
        "export the model with external_data=True");
  File file{.origin = origin, .owner = std::move(owner)};
  const Split model = split(bytes, graph_field, origin);
  if (model.field.size() != 1) refuse_damaged(origin, "has no graph");
  const Split graph = split(model.field.front(), initializer_field, origin);
  parse_message(file.model, model.rest, origin);
  parse_message(*file.model.mutable_graph(), graph.rest, origin);
  check_kind(file);
  std::unordered_set<std::string> names;
  for (const auto& message : graph.field) {
    file.initializers.push_back(initializer_of(message, origin, folder));
    if (!names.insert(file.initializers.back().name).second)
      refuse_damaged(origin, fmt::format("has two initializers '{}'",
                                         printable(file.initializers.back().name)));
  }
  return file;
}

File open_file(const fs::path& path) {
  const auto mapped = MappedFile::open(path);
  return parse_file(mapped->bytes(), path.string(), path.parent_path(), mapped);
}

}  // namespace troupe::graph::onnx
