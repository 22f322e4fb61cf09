#include "runtime/file/distributed_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "runtime/error.h"
#include "runtime/file/file.h"
#include "runtime/file/pickle.h"
#include "runtime/file/torch_tensor.h"
#include "runtime/text.h"

namespace troupe::distributed {
namespace {

/// Where a part is stored.
struct Place {
  std::string_view file;
  std::uint64_t begin = 0, length = 0;
};
/// A tensor's name and the offsets of its part.
using PlaceKey = std::pair<std::string_view, std::vector<std::int64_t>>;

class Reader {
 public:
  Reader(const Pickle& pickle, std::string origin)
      : whole_(pickle.value()), origin_(std::move(origin)) {}

  Metadata read() {
    read_places();
    read_paths();
    Metadata metadata;
    std::set<std::string_view> keys;
    for (const auto& [key, value] : dict(attribute(whole_, "state_dict_metadata")).items) {
      const std::string_view name = text(key);
      const auto path = path_of(name);
      const std::string_view top = path ? path->front() : name.substr(0, name.find('.'));
      if (keys.insert(top).second) metadata.keys.push_back(top);
      if (!path || class_of(value) != "TensorStorageMetadata") continue;
      if (metadata.tensors.contains(name)) fail(fmt::format("{} is there twice", printable(name)));
      metadata.tensors.emplace(name, tensor(name, value, *path));
      metadata.names.push_back(name);
    }
    return metadata;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::bad_file, fmt::format("reading '{}': {}", origin_, what),
                "the file is damaged, or of another version of torch.distributed.checkpoint");
  }

  // Values.

  template <class T>
  const T& as(const PickleValue& value, const char* what) const {
    if (const T* held = std::get_if<T>(&value)) return *held;
    fail(fmt::format("{} is not where it should be", what));
  }
  const PickleDict& dict(const PickleValue& value) const {
    return *as<PickleDict*>(value, "a dictionary");
  }
  std::string_view text(const PickleValue& value) const {
    return as<std::string_view>(value, "a text");
  }
  std::uint64_t whole_number(const PickleValue& value) const {
    const auto number = as<std::int64_t>(value, "a number");
    if (number < 0) fail(fmt::format("a size is {}", number));
    return static_cast<std::uint64_t>(number);
  }
  std::vector<std::int64_t> sizes(const PickleValue& value) const {
    std::vector<std::int64_t> numbers;
    for (const PickleValue& item : as<PickleList*>(value, "a size")->items) {
      if (numbers.size() == Shape::max_rank)
        throw Error(
            ErrorCode::unsupported,
            fmt::format("reading '{}': a tensor has more than {} axes", origin_, Shape::max_rank),
            "reshape the tensor before it is saved");
      numbers.push_back(static_cast<std::int64_t>(whole_number(item)));
    }
    return numbers;
  }
  Shape shape(const PickleValue& value) const {
    const std::vector<std::int64_t> dims = sizes(value);
    try {
      return Shape(dims);
    } catch (const Error& error) {
      fail(error.message());
    }
  }

  // Objects: what Python keeps of a dataclass is a dictionary.

  std::string_view class_of(const PickleValue& value) const {
    PickleObject* const* object = std::get_if<PickleObject*>(&value);
    if (object == nullptr) return {};
    PickleName* const* name = std::get_if<PickleName*>(&(*object)->callee);
    return name == nullptr ? std::string_view() : (*name)->name;
  }
  const PickleValue* find_attribute(const PickleValue& object, std::string_view name) const {
    PickleDict* const* state =
        std::get_if<PickleDict*>(&as<PickleObject*>(object, "an object")->state);
    return state == nullptr ? nullptr : (*state)->find(name);
  }
  const PickleValue& attribute(const PickleValue& object, std::string_view name) const {
    const PickleValue* found = find_attribute(object, name);
    if (found == nullptr) fail(fmt::format("an object lacks {}", name));
    return *found;
  }

  // What the file holds.

  void read_places() {
    for (const auto& [key, value] : dict(attribute(whole_, "storage_data")).items) {
      const PickleValue* offset = find_attribute(key, "offset");
      if (offset == nullptr || std::holds_alternative<std::monostate>(*offset)) continue;
      const PickleValue* transforms = find_attribute(value, "transform_descriptors");
      if (transforms != nullptr && !std::holds_alternative<std::monostate>(*transforms))
        throw Error(
            ErrorCode::unsupported,
            fmt::format("reading '{}': its data are transformed, such as compressed", origin_),
            "save the checkpoint without extensions of the file system writer");
      Place place{text(attribute(value, "relative_path")), whole_number(attribute(value, "offset")),
                  whole_number(attribute(value, "length"))};
      if (place.file.empty() || place.file.front() == '.' ||
          place.file.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos)
        fail(fmt::format("the file name {} leads out of its folder", printable(place.file)));
      places_.emplace(PlaceKey{text(attribute(key, "fqn")), sizes(*offset)}, place);
    }
  }
  /// The keys that lead to each tensor; a planner that does not flatten dictionaries has none.
  void read_paths() {
    const PickleValue* data = find_attribute(whole_, "planner_data");
    if (data == nullptr || !std::holds_alternative<PickleDict*>(*data)) return;
    has_paths_ = true;
    for (const auto& [key, value] : dict(*data).items) {
      std::vector<std::string_view> path;
      const auto& keys = as<PickleList*>(value, "a path")->items;
      const bool are_texts = std::ranges::all_of(keys, [](const PickleValue& item) {
        return std::holds_alternative<std::string_view>(item);
      });
      // A list of keys may be that of many paths.
      constexpr std::size_t deepest = 16;
      if (!are_texts || keys.empty() || keys.size() > deepest) continue;
      path.reserve(keys.size());
      for (const PickleValue& item : keys) path.push_back(text(item));
      paths_.emplace(text(key), std::move(path));
    }
  }
  std::optional<std::vector<std::string_view>> path_of(std::string_view name) const {
    if (!has_paths_) return std::vector<std::string_view>{name};
    const auto found = paths_.find(name);
    return found == paths_.end() ? std::nullopt : std::optional(found->second);
  }

  StoredTensor tensor(std::string_view name, const PickleValue& value,
                      const std::vector<std::string_view>& path) {
    const std::string where = fmt::format("tensor '{}' of '{}'", printable(name), origin_);
    StoredTensor result{.dtype = dtype_of_properties(attribute(value, "properties"), where),
                        .shape = shape(attribute(value, "size")),
                        .path = path,
                        .parts = {}};
    for (const PickleValue& chunk : as<PickleList*>(attribute(value, "chunks"), "a list")->items) {
      Part part{.offsets = sizes(attribute(chunk, "offsets")),
                .shape = shape(attribute(chunk, "sizes")),
                .file = {}};
      check_inside(part, result.shape, where);
      // Taken out, so that a list of parts that many tensors share does not take memory for each.
      const auto found = places_.extract(PlaceKey{name, part.offsets});
      if (found.empty()) fail(fmt::format("no file has a part of {}", where));
      part.file = found.mapped().file;
      part.begin = found.mapped().begin;
      part.length = found.mapped().length;
      result.parts.push_back(std::move(part));
    }
    return result;
  }
  /// The first of them, as TensorProperties.__getstate__ orders them.
  DType dtype_of_properties(const PickleValue& properties, const std::string& where) const {
    const PickleValue& state = as<PickleObject*>(properties, "an object")->state;
    const auto& items = as<PickleList*>(state, "the properties of a tensor")->items;
    if (items.empty()) fail("a tensor has no properties");
    return torch_dtype(as<PickleName*>(items.front(), "a type")->name, where);
  }
  void check_inside(const Part& part, const Shape& whole, const std::string& where) const {
    bool inside = part.shape.rank() == whole.rank() &&
                  part.offsets.size() == static_cast<std::size_t>(whole.rank());
    for (int axis = 0; inside && axis < whole.rank(); ++axis) {
      const std::int64_t offset = part.offsets[static_cast<std::size_t>(axis)];
      inside = offset <= whole[axis] && part.shape[axis] <= whole[axis] - offset;
    }
    if (!inside) fail(fmt::format("{} has a part outside of {}", where, to_string(whole)));
  }

  const PickleValue& whole_;
  std::string origin_;
  std::map<PlaceKey, Place> places_;
  bool has_paths_ = false;
  std::unordered_map<std::string_view, std::vector<std::string_view>> paths_;
};

}  // namespace

Metadata read_metadata(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  const auto pickle =
      std::make_shared<const Pickle>(file->bytes(), path.string(), PickleObjects::named);
  Metadata metadata = Reader(*pickle, path.string()).read();
  metadata.file = file;
  metadata.pickle = pickle;
  return metadata;
}

}  // namespace troupe::distributed
