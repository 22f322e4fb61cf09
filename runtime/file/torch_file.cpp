#include "runtime/file/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "runtime/file/name_prefix.h"
#include "runtime/file/state_dictionary.h"
#include "runtime/file/torch_archive.h"
#include "runtime/shell_text.h"
#include "runtime/text.h"

namespace troupe {

const char* const torch_export_line =
    "export the model with torch.export.save(torch.export.export(net.train(), (x,), "
    "dynamic_shapes=({0: torch.export.Dim(\"batch\")},)), \"net.pt2\")";

namespace {

/// A dictionary, also one of a class of its own; null for other values.
const PickleDict* dictionary_in(const PickleValue& value) {
  if (PickleDict* const* dict = std::get_if<PickleDict*>(&value)) return *dict;
  if (PickleObject* const* object = std::get_if<PickleObject*>(&value))
    if (!(*object)->items.items.empty()) return &(*object)->items;
  return nullptr;
}

/// The key and the dictionary of an item that has a text as key; else null.
std::pair<std::string_view, const PickleDict*> child_in(
    const std::pair<PickleValue, PickleValue>& item) {
  const auto* name = std::get_if<std::string_view>(&item.first);
  if (name == nullptr) return {};
  return {*name, dictionary_in(item.second)};
}

/// All dictionaries that are reached from one by texts as keys, each once, behind all that hold it:
/// a depth-first search, backwards, so that the order is that of the keys.
std::vector<const PickleDict*> in_order(const PickleDict& whole) {
  std::vector<const PickleDict*> ended;
  std::unordered_set<const PickleDict*> seen{&whole};
  std::vector<std::pair<const PickleDict*, std::size_t>> open{{&whole, whole.items.size()}};
  while (!open.empty()) {
    auto& [dict, left] = open.back();
    if (left == 0) {
      ended.push_back(dict);
      open.pop_back();
      continue;
    }
    const PickleDict* child = child_in(dict->items[--left]).second;
    if (child != nullptr && seen.insert(child).second)
      open.emplace_back(child, child->items.size());
  }
  std::ranges::reverse(ended);
  return ended;
}

/// What those hold, for find_state_dictionary.
struct Dictionaries {
  std::vector<const PickleDict*> dicts;
  std::vector<StateDictionary> list;  ///< of each of them

  explicit Dictionaries(const PickleDict& whole) : dicts(in_order(whole)), list(dicts.size()) {
    for (std::size_t i = 0; i < dicts.size(); ++i) places_.emplace(dicts[i], i);
    for (std::size_t i = 0; i < dicts.size(); ++i)
      for (const auto& item : dicts[i]->items) {
        if (std::holds_alternative<std::string_view>(item.first) && is_torch_tensor(item.second)) {
          list[i].tensors += 1;
          list[i].weights += is_integer_torch_tensor(item.second) ? 0 : 1;
        }
        const auto [key, child] = child_in(item);
        // What refers to a dictionary that contains it has no weights of its own there.
        if (child != nullptr && places_.at(child) > i) add(i, key, places_.at(child));
      }
  }

  /// Whether a value is a dictionary that has weights itself.
  bool holds_weights(const PickleValue& value) const {
    const auto place = places_.find(dictionary_in(value));
    return place != places_.end() && list[place->second].weights > 0;
  }

 private:
  std::unordered_map<const PickleDict*, std::size_t> places_;

  void add(std::size_t parent, std::string_view key, std::size_t child) {
    constexpr std::size_t longest = 200;  // a path of many keys is shown up to there
    list[parent].children.emplace_back(key, child);
    std::string& path = list[child].path;
    if (!path.empty()) return;  // several keys lead to it: it is listed by the first
    path =
        list[parent].path.empty() ? std::string(key) : fmt::format("{}.{}", list[parent].path, key);
    path.resize(std::min(path.size(), longest));
  }
};

/// What the tensors of a file are read from.
struct Source {
  std::shared_ptr<const TorchArchive> archive;
  std::unordered_map<std::string, TorchTensor> tensors;

  std::string where(const std::string& name) const {
    return fmt::format("tensor '{}' of '{}'", printable(name), archive->origin());
  }
  Tensor read(const std::string& name) const {
    const auto found = tensors.find(name);
    if (found == tensors.end())
      throw Error(ErrorCode::bad_file,
                  fmt::format("'{}' has no tensor '{}' among its {}", archive->origin(),
                              printable(name), tensors.size()),
                  "the file belongs to another model, or its tensors have other names");
    return archive->read(found->second, where(name));
  }
};

/// The class of an object that a file holds in place of a dictionary; null: it holds something
/// else.
const PickleName* class_of(const PickleValue& value) {
  if (dictionary_in(value) != nullptr) return nullptr;
  PickleObject* const* object = std::get_if<PickleObject*>(&value);
  PickleName* const* name =
      object == nullptr ? nullptr : std::get_if<PickleName*>(&(*object)->callee);
  return name == nullptr ? nullptr : *name;
}

const PickleDict& whole_of(const TorchArchive& archive) {
  const PickleDict* whole = dictionary_in(archive.value());
  if (whole != nullptr) return *whole;
  const std::string& origin = archive.origin();
  const PickleName* name = class_of(archive.value());
  const bool is_tensor = name != nullptr && name->name.starts_with("_rebuild_");
  if (name == nullptr || is_tensor)
    throw Error(ErrorCode::bad_file,
                fmt::format("reading '{}': it holds {}", origin,
                            is_tensor ? "a single tensor, not a dictionary" : "no dictionary"),
                "save the weights with torch.save(net.state_dict(), 'weights.pt')");
  throw Error(
      ErrorCode::bad_file,
      fmt::format("reading '{}': it holds an object made by {}.{}, not a dictionary", origin,
                  printable(name->module), printable(name->name)),
      fmt::format(
          "{}; or save its weights, if its code is there and trusted: {}", torch_export_line,
          weights_command("torch.load(file, 'cpu', weights_only=False).state_dict()", origin)));
}

TorchWeights weights_in(const std::shared_ptr<const TorchArchive>& archive, std::string_view part) {
  if (is_name_prefix(part)) {
    TorchWeights whole = weights_in(archive, {});
    whole.tensors = without_prefix(std::move(whole.tensors), part, archive->origin());
    whole.part += fmt::format("{}{}", whole.part.empty() ? "" : ", ", printable(part));
    return whole;
  }
  const PickleDict& whole = whole_of(*archive);
  const Dictionaries dictionaries(whole);
  const auto [chosen, path] = find_state_dictionary(dictionaries.list, archive->origin(), part);
  const auto source = std::make_shared<Source>();
  source->archive = archive;
  TorchWeights weights;
  weights.has_checksums = archive->has_checksums();
  weights.part = printable(path);
  std::vector<TorchTensor> tensors;
  for (const auto& [key, value] : dictionaries.dicts[chosen]->items) {
    const auto* name = std::get_if<std::string_view>(&key);
    if (name == nullptr || !is_torch_tensor(value)) continue;
    std::string text(*name);
    const TorchTensor tensor = torch_tensor(value, source->where(text));
    weights.tensors.tensors.push_back({text, tensor.dtype, tensor.shape});
    tensors.push_back(tensor);
    if (!source->tensors.emplace(std::move(text), tensor).second)
      throw Error(ErrorCode::bad_file,
                  fmt::format("reading {}: it is there twice", source->where(std::string(*name))),
                  "the file is damaged: write it again with torch.save");
  }
  archive->check_copies(tensors);
  for (const auto& [key, value] : whole.items)
    if (const auto* name = std::get_if<std::string_view>(&key))
      if (*name != path && (chosen != 0 || !is_torch_tensor(value)))
        weights.others.push_back(
            printable(*name) +
            (!name->starts_with("optim") && dictionaries.holds_weights(value) ? " (weights)" : ""));
  weights.tensors.read = [source](const std::string& name) { return source->read(name); };
  return weights;
}

}  // namespace

bool is_pickled_module(ZipArchive archive) {
  return class_of(TorchArchive(std::move(archive)).value()) != nullptr;
}

bool is_legacy_torch_file(std::span<const std::byte> bytes) {
  using std::string_view_literals::operator""sv;
  // The pickle of 0x1950a86a20f9469cfc6c.
  constexpr std::string_view magic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46"sv;
  return bytes.size() >= magic.size() &&
         std::ranges::equal(as_bytes(magic), bytes.first(magic.size()));
}

std::string weights_command(std::string_view expression, const std::string& path,
                            std::string_view end) {
  return fmt::format(
      "python3 -c \"import sys, torch; file = sys.argv[1]; torch.save({}, file + '.{}.pt')\" {}",
      expression, end, shell_word(path));
}

std::string legacy_conversion(const std::string& path) {
  return weights_command("torch.load(file, 'cpu', weights_only=True)", path, "new");
}

TorchWeights parse_torch_file(std::span<const std::byte> bytes, const std::string& origin,
                              std::shared_ptr<const void> owner, std::string_view part) {
  if (is_legacy_torch_file(bytes))
    throw Error(ErrorCode::bad_file,
                fmt::format("reading '{}': it is a file from PyTorch before 1.6", origin),
                "to convert it: " + legacy_conversion(origin));
  return weights_in(
      std::make_shared<const TorchArchive>(ZipArchive::parse(bytes, origin, std::move(owner))),
      part);
}

TorchWeights open_torch_file(const std::filesystem::path& path, std::string_view part) {
  const auto file = MappedFile::open(path);
  return parse_torch_file(file->bytes(), path.string(), file, part);
}

TorchPath torch_path(const std::filesystem::path& path) {
  const std::string text = path.string();
  const std::size_t mark = text.rfind('#');
  std::error_code ignored;
  if (mark == std::string::npos || std::filesystem::exists(path, ignored)) return {path, {}};
  return {text.substr(0, mark), text.substr(mark + 1)};
}

}  // namespace troupe
