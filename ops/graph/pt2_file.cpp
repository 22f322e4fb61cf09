#include "ops/graph/pt2_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ops/graph/json_access.h"
#include "runtime/error.h"
#include "runtime/file/json.h"
#include "runtime/file/torch_tensor.h"
#include "runtime/text.h"

namespace troupe::graph {

namespace {

// torchvision's largest model has 4.5 MB of JSON. PyTorch stores it; when packed it takes a
// fortieth, and parsed up to thirty times as much. So a packed text is bounded by the first number,
// a stored one by its file and the second.
constexpr std::uint64_t most_unpacked_json = std::uint64_t{16} << 20;
constexpr std::uint64_t most_json = std::uint64_t{256} << 20;
constexpr std::int64_t schema = 8;

std::vector<std::int64_t> integers(const JsonAccess& list) {
  std::vector<std::int64_t> result;
  for (const JsonAccess& item : list.items()) result.push_back(item.at("as_int").integer());
  return result;
}

/// The elements from the first to the last that a tensor refers to; throws unless they exist.
void check_extent(const JsonAccess& meta, const Pt2Tensor& tensor, std::uint64_t bytes) {
  if (tensor.strides.size() != static_cast<std::size_t>(tensor.shape.rank()))
    meta.fail(
        fmt::format("{} strides for the shape {}", tensor.strides.size(), to_string(tensor.shape)));
  std::int64_t last = tensor.offset;
  bool fits = tensor.offset >= 0;
  for (int axis = 0; axis < tensor.shape.rank() && fits; ++axis) {
    std::int64_t distance = 0;
    const std::int64_t stride = tensor.strides[static_cast<std::size_t>(axis)];
    fits = stride >= 0 &&
           !__builtin_mul_overflow(std::max<std::int64_t>(0, tensor.shape[axis] - 1), stride,
                                   &distance) &&
           !__builtin_add_overflow(last, distance, &last);
  }
  const auto elements = static_cast<std::int64_t>(bytes / size_of(tensor.dtype));
  if (tensor.shape.element_count() == 0)
    fits = fits && tensor.offset <= elements;
  else
    fits = fits && last < elements;
  // A stride of 0 repeats elements: a parameter cannot be trained then, and memory must stay
  // within the file's size.
  fits = fits && tensor.shape.element_count() <= elements;
  if (!fits)
    meta.fail(fmt::format("shape {}, strides [{}] and offset {} exceed its {} elements",
                          to_string(tensor.shape), fmt::join(tensor.strides, ", "), tensor.offset,
                          elements));
}

/// The folder in which all members lie: the file's name when it was saved.
std::string stem_of(const ZipArchive& archive, const std::string& origin) {
  for (const ZipMember& member : archive.members()) {
    constexpr std::string_view model = "models/model.json";
    if (member.name.ends_with(model))
      return member.name.substr(0, member.name.size() - model.size());
  }
  const auto has = [&](std::string_view end) {
    return std::ranges::any_of(archive.members(),
                               [&](const ZipMember& member) { return member.name.ends_with(end); });
  };
  const auto refuse = [&](std::string_view what) {
    throw Error(ErrorCode::bad_file, fmt::format("{} {}", origin, what), torch_export_line);
  };
  if (has("constants.pkl")) refuse("is a TorchScript file, which holds code");
  if (has("data.pkl"))
    refuse(is_pickled_module(archive) ? "holds a pickled module without its code"
                                      : "holds weights alone, no model");
  refuse("has no models/model.json: torch.export.save did not write it");
  return {};
}

}  // namespace

/// PyTorch's numbers of element types.
DType dtype_of_number(const JsonAccess& meta) {
  const std::int64_t number = meta.at("dtype").integer();
  switch (number) {
    case 1:
      return DType::u8;
    case 2:
      return DType::i8;
    case 3:
      return DType::i16;
    case 4:
      return DType::i32;
    case 5:
      return DType::i64;
    case 6:
      return DType::f16;
    case 7:
      return DType::f32;
    case 8:
      return DType::f64;
    case 12:
      return DType::boolean;
    case 13:
      return DType::bf16;
    default:
      break;
  }
  meta.fail(fmt::format("its element type has the number {}, which has no counterpart", number));
}

std::string Pt2Tensor::elements() const {
  return fmt::format("{} {} {} [{}] {}", payload, name_of(dtype), to_string(shape),
                     fmt::join(strides, ","), offset);
}

nlohmann::json Pt2File::document(const std::string& name) const {
  const ZipMember& member = archive_.at(name);
  const std::uint64_t most = std::min(most_json, std::max(most_unpacked_json, member.packed_size));
  return parse_json(archive_.content(member, most).text(),
                    fmt::format("{} in {}", name, archive_.origin()));
}

/// Views of the same bytes, and payloads packed far below their size, cost more memory than they
/// take in the file.
void Pt2File::check_memory() const {
  std::uint64_t bytes = 0, most = std::uint64_t{64} << 20;
  for (const ZipMember& member : archive_.members()) most += 4 * member.packed_size;
  std::set<std::string> seen;
  for (const auto* tensors : {&weights_, &constants_})
    for (const auto& [name, tensor] : *tensors) {
      if (!seen.insert(tensor.elements()).second) continue;
      bytes += static_cast<std::uint64_t>(tensor.shape.element_count()) * size_of(tensor.dtype);
      const std::uint64_t needed = std::max(bytes, archive_.at(tensor.payload).size);
      if (needed <= most) continue;
      throw Error(
          ErrorCode::bad_file,
          fmt::format("{}: its tensors up to '{}' need {} bytes; at most {} are possible in a "
                      "file of this size",
                      origin_, printable(name), needed, most),
          "export the model again, with tensors that do not share memory");
    }
}

Pt2File::Pt2File(ZipArchive archive, std::string origin)
    : archive_(std::move(archive)), origin_(std::move(origin)) {
  stem_ = stem_of(archive_, origin_);
  if (const ZipMember* order = archive_.find(stem_ + "byteorder"))
    if (archive_.content(*order, 16).text().starts_with("big"))
      throw Error(ErrorCode::bad_file, fmt::format("{} has big-endian numbers", origin_),
                  "export the model on a little-endian machine");
  model_ = document(stem_ + "models/model.json");
  const JsonAccess version = JsonAccess(model_, origin_).at("schema_version");
  const std::int64_t major = version.at("major").integer();
  if (major != schema)
    throw Error(ErrorCode::bad_file,
                fmt::format("{} has the schema {}.{}, but {}.x is known: PyTorch changes the "
                            "meaning of such files with the first number",
                            origin_, major, version.at("minor").integer(), schema),
                "export the model with PyTorch 2.15, or as ONNX");
  weights_ = read_config("data/weights/", "model_weights_config.json");
  constants_ = read_config("data/constants/", "model_constants_config.json");
  check_memory();
}

Pt2File Pt2File::open(const std::filesystem::path& path) {
  return Pt2File(ZipArchive::open(path), fmt::format("'{}'", path.string()));
}

Pt2File Pt2File::parse(std::span<const std::byte> bytes, const std::string& origin) {
  return Pt2File(ZipArchive::parse(bytes, origin), origin);
}

std::map<std::string, Pt2Tensor> Pt2File::read_config(const std::string& folder,
                                                      const std::string& file) const {
  std::map<std::string, Pt2Tensor> result;
  const std::string member = stem_ + folder + file;
  if (!archive_.find(member)) return result;
  const nlohmann::json json = document(member);
  const JsonAccess config = JsonAccess(json, origin_).at("config");
  for (const auto& [name, entry] : config.members()) {
    const JsonAccess meta = entry.at("tensor_meta");
    if (entry.at("use_pickle").boolean())
      entry.fail("it is stored as a pickle, which Troupe does not read");
    Pt2Tensor tensor{
        .name = name,
        .payload = stem_ + folder + entry.at("path_name").text(),
        .trainable = entry.at("is_param").boolean() && meta.at("requires_grad").boolean(),
        .dtype = dtype_of_number(meta),
        .shape = {},
        .strides = integers(meta.at("strides")),
        .offset = meta.at("storage_offset").at("as_int").integer()};
    const std::vector<std::int64_t> sizes = integers(meta.at("sizes"));
    if (sizes.size() > Shape::max_rank)
      meta.fail(fmt::format("its tensor has {} axes; at most {} are possible", sizes.size(),
                            Shape::max_rank));
    tensor.shape = Shape(std::span<const std::int64_t>(sizes));
    check_extent(meta, tensor, archive_.at(tensor.payload).size);
    result.emplace(name, std::move(tensor));
  }
  return result;
}

Tensor Pt2File::read(const Pt2Tensor& tensor) const {
  const ZipMember& member = archive_.at(tensor.payload);
  const ZipContent content = archive_.content(member, member.size);
  const TorchTensor elements{.storage = tensor.payload,
                             .storage_bytes = member.size,
                             .dtype = tensor.dtype,
                             .offset = tensor.offset,
                             .shape = tensor.shape,
                             .strides = tensor.strides};
  const Tensor result = elements_of(elements, content.bytes, content.owner, member.size,
                                    fmt::format("{} in {}", tensor.name, origin_));
  // A view needs an owner, and would keep all of an unpacked member.
  return content.owner && member.is_stored() ? result : result.clone();
}

}  // namespace troupe::graph
