#include "runtime/file/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>

#include "runtime/file/state_dictionary.h"
#include "runtime/file/torch_archive.h"
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

/// All dictionaries that are reached from one by texts as keys, each once.
struct Dictionaries {
  std::vector<StateDictionary> list;
  std::vector<const PickleDict*> dicts;

  explicit Dictionaries(const PickleDict& whole) {
    std::unordered_map<const PickleDict*, std::size_t> places{{&whole, 0}};
    list.emplace_back();
    dicts.push_back(&whole);
    for (std::size_t i = 0; i < dicts.size(); ++i)
      for (const auto& [key, value] : dicts[i]->items) {
        const auto* name = std::get_if<std::string_view>(&key);
        if (name == nullptr) continue;
        if (is_torch_tensor(value)) {
          list[i].tensors += 1;
          list[i].weights += is_integer_torch_tensor(value) ? 0 : 1;
        }
        const PickleDict* child = dictionary_in(value);
        if (child == nullptr) continue;
        const auto [place, is_new] = places.try_emplace(child, dicts.size());
        if (is_new) add(i, *name, *child);
        // What refers to a dictionary that contains it has no weights of its own there.
        if (place->second > i) list[i].children.emplace_back(*name, place->second);
      }
  }

 private:
  void add(std::size_t parent, std::string_view key, const PickleDict& child) {
    constexpr std::size_t longest = 200;  // a path of many keys is shown up to there
    const std::string& above = list[parent].path;
    std::string path = above.empty() ? std::string(key) : above + "." + std::string(key);
    path.resize(std::min(path.size(), longest));
    list.push_back({.path = std::move(path)});
    dicts.push_back(&child);
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
  if (name == nullptr)
    throw Error(ErrorCode::bad_file, fmt::format("reading '{}': it holds no dictionary", origin),
                "save the weights with torch.save(net.state_dict(), 'weights.pt')");
  throw Error(ErrorCode::bad_file,
              fmt::format("reading '{}': it holds an object made by {}.{}, not a dictionary",
                          origin, printable(name->module), printable(name->name)),
              fmt::format("{1}; or save its weights, if its code is there and trusted: python3 -c "
                          "\"import torch; torch.save(torch.load('{0}', 'cpu', "
                          "weights_only=False).state_dict(), '{0}.weights.pt')\"",
                          origin, torch_export_line));
}

TorchWeights weights_in(const std::shared_ptr<const TorchArchive>& archive, std::string_view part) {
  const PickleDict& whole = whole_of(*archive);
  const Dictionaries dictionaries(whole);
  const std::size_t chosen = find_state_dictionary(dictionaries.list, archive->origin(), part);
  const auto source = std::make_shared<Source>();
  source->archive = archive;
  TorchWeights weights;
  weights.has_checksums = archive->has_checksums();
  weights.part = printable(dictionaries.list[chosen].path);
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
      if (dictionary_in(value) != dictionaries.dicts[chosen] &&
          (chosen != 0 || !is_torch_tensor(value)))
        weights.others.push_back(printable(*name));
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

std::string legacy_conversion(const std::string& path) {
  return fmt::format(
      "python3 -c \"import torch; torch.save(torch.load('{0}', 'cpu', weights_only=True), "
      "'{0}.new.pt')\"",
      path);
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
