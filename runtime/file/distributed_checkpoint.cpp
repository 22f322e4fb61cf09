// The folders of torch.distributed.checkpoint: `.metadata`, a pickle that tells which parts of
// which tensors are where, and __R_N.distcp, archives of torch.save behind one another.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/file/distributed_metadata.h"
#include "runtime/file/name_prefix.h"
#include "runtime/file/state_dictionary.h"
#include "runtime/file/torch_archive.h"
#include "runtime/file/torch_file.h"
#include "runtime/text.h"

namespace troupe {
namespace {

using distributed::Metadata;
using distributed::Part;
using distributed::StoredTensor;

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::bad_file, fmt::format("reading {}: {}", where, what),
              "the checkpoint is damaged or incomplete: copy all of its folder");
}

/// Copies a part to its place in the whole, one run of the last axis after another, and marks the
/// elements as filled.
void place(const Tensor& part, const std::vector<std::int64_t>& offsets, const Tensor& whole,
           std::vector<bool>& filled) {
  const int rank = whole.rank();
  const auto size = static_cast<std::int64_t>(size_of(whole.dtype()));
  const std::int64_t run = rank == 0 ? 1 : part.dim(rank - 1);
  for (std::int64_t done = 0; done < part.element_count(); done += run) {
    // The place of the run's first element, by its index in the part.
    std::int64_t rest = done, at = 0, stride = 1;
    for (int axis = rank - 1; axis >= 0; --axis) {
      at += (rest % part.dim(axis) + offsets[static_cast<std::size_t>(axis)]) * stride;
      rest /= part.dim(axis);
      stride *= whole.dim(axis);
    }
    std::copy_n(part.raw() + done * size, run * size, whole.raw() + at * size);
    std::fill_n(filled.begin() + at, run, true);
  }
}

class DistributedCheckpoint {
 public:
  explicit DistributedCheckpoint(const std::filesystem::path& folder)
      : folder_(folder), metadata_(distributed::read_metadata(folder / ".metadata")) {
    for (const auto& [name, tensor] : metadata_.tensors)
      for (const Part& part : tensor.parts) {
        std::shared_ptr<const MappedFile>& file = files_[part.file];
        if (!file) file = MappedFile::open(folder / part.file);
      }
    check_lengths();
  }

  const Metadata& metadata() const { return metadata_; }

  Tensor read(std::string_view name) const {
    const auto found = metadata_.tensors.find(name);
    if (found == metadata_.tensors.end())
      throw Error(ErrorCode::bad_file,
                  fmt::format("'{}' has no tensor '{}'", folder_.string(), printable(name)),
                  "the checkpoint belongs to another model, or its tensors have other names");
    const StoredTensor& tensor = found->second;
    const std::string where = fmt::format("tensor '{}' of '{}'", printable(name), folder_.string());
    if (tensor.parts.size() == 1 && tensor.parts[0].shape == tensor.shape)
      return read(tensor.parts[0], tensor.dtype, where);
    check_parts(tensor, where);
    Tensor whole = Tensor::empty(tensor.shape, tensor.dtype, Device::cpu());
    std::vector<bool> filled(static_cast<std::size_t>(tensor.shape.element_count()));
    for (const Part& part : tensor.parts)
      place(read(part, tensor.dtype, where), part.offsets, whole, filled);
    if (std::ranges::find(filled, false) != filled.end())
      fail(where, "its parts overlap, and leave elements out");
    return whole;
  }

 private:
  /// No two parts are the same bytes, so reading all of them takes as long as reading the files.
  void check_lengths() const {
    std::uint64_t parts = 0, files = 0;
    for (const auto& [name, file] : files_) files += file->bytes().size();
    for (const auto& [name, tensor] : metadata_.tensors)
      for (const Part& part : tensor.parts)
        if (__builtin_add_overflow(parts, part.length, &parts) || parts > files)
          fail(fmt::format("'{}'", folder_.string()),
               fmt::format("its tensors have more bytes than its files, which have {}", files));
  }
  /// The parts have as many elements as the tensor, and the files as many bytes. So memory is
  /// bounded by them.
  static void check_parts(const StoredTensor& tensor, const std::string& where) {
    std::int64_t elements = 0;
    std::uint64_t bytes = 0;
    for (const Part& part : tensor.parts) {
      if (__builtin_add_overflow(elements, part.shape.element_count(), &elements) ||
          __builtin_add_overflow(bytes, part.length, &bytes))
        fail(where, "its parts are too large");
    }
    if (elements != tensor.shape.element_count() ||
        static_cast<std::uint64_t>(elements) > bytes / size_of(tensor.dtype))
      fail(where, fmt::format("its {} parts have {} elements and {} bytes, but its shape is {}",
                              tensor.parts.size(), elements, bytes, to_string(tensor.shape)));
  }
  Tensor read(const Part& part, DType dtype, const std::string& where) const {
    const std::shared_ptr<const MappedFile>& file = files_.at(part.file);
    const std::span<const std::byte> bytes = file->bytes();
    if (part.begin > bytes.size() || part.length > bytes.size() - part.begin)
      fail(where, fmt::format("{} has {} bytes, but a part is at {} to {}", part.file, bytes.size(),
                              part.begin, part.begin + part.length));
    const TorchArchive archive(
        ZipArchive::parse(bytes.subspan(part.begin, part.length), file->path().string(), file));
    Tensor tensor = archive.read(torch_tensor(archive.value(), where), where);
    if (tensor.dtype() != dtype || tensor.shape() != part.shape)
      fail(where, fmt::format("{} has {} {} at {} in place of {} {}", part.file,
                              name_of(tensor.dtype()), to_string(tensor.shape()), part.begin,
                              name_of(dtype), to_string(part.shape)));
    return tensor;
  }

  std::filesystem::path folder_;
  Metadata metadata_;
  std::map<std::string_view, std::shared_ptr<const MappedFile>> files_;
};

/// The dictionaries that the paths of tensors make, and the tensors in each.
struct Tree {
  std::vector<StateDictionary> list{1};
  std::vector<std::vector<std::pair<std::string_view, std::string_view>>> tensors{
      1};  ///< key, full name

  explicit Tree(const Metadata& metadata) {
    for (const std::string_view name : metadata.names) {
      const StoredTensor& tensor = metadata.tensors.at(name);
      std::size_t at = 0;
      for (std::size_t i = 0; i + 1 < tensor.path.size(); ++i) at = child(at, tensor.path[i]);
      list[at].tensors += 1;
      list[at].weights += is_floating(tensor.dtype) ? 1 : 0;
      tensors[at].emplace_back(tensor.path.back(), name);
    }
  }

 private:
  std::size_t child(std::size_t of, std::string_view key) {
    constexpr std::size_t longest = 200;  // a path of many keys is shown up to there
    const auto [found, is_new] = children_.try_emplace({of, key}, list.size());
    if (is_new) {
      const std::string& above = list[of].path;
      std::string path = above.empty() ? std::string(key) : above + "." + std::string(key);
      path.resize(std::min(path.size(), longest));
      list[of].children.emplace_back(key, list.size());
      list.push_back({.path = std::move(path)});
      tensors.emplace_back();
    }
    return found->second;
  }
  std::map<std::pair<std::size_t, std::string_view>, std::size_t> children_;
};

}  // namespace

bool is_distributed_checkpoint(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(folder / ".metadata", ignored);
}

TorchWeights open_distributed_checkpoint(const std::filesystem::path& folder,
                                         std::string_view part) {
  if (is_name_prefix(part)) {
    TorchWeights whole = open_distributed_checkpoint(folder, {});
    whole.tensors = without_prefix(std::move(whole.tensors), part, folder.string());
    whole.part += fmt::format("{}{}", whole.part.empty() ? "" : ", ", printable(part));
    return whole;
  }
  const auto checkpoint = std::make_shared<const DistributedCheckpoint>(folder);
  const Tree tree(checkpoint->metadata());
  const auto [chosen, path] = find_state_dictionary(tree.list, folder.string(), part);
  TorchWeights weights;
  weights.part = printable(path);
  std::map<std::string, std::string_view, std::less<>> names;
  for (const auto& [key, name] : tree.tensors[chosen]) {
    const StoredTensor& tensor = checkpoint->metadata().tensors.at(name);
    if (!names.emplace(key, name).second)
      fail(fmt::format("'{}'", folder.string()), fmt::format("two tensors are {}", printable(key)));
    weights.tensors.tensors.push_back({std::string(key), tensor.dtype, tensor.shape});
  }
  const std::string top = weights.part.substr(0, weights.part.find('.'));
  for (const std::string_view key : checkpoint->metadata().keys)
    if (key != top && !names.contains(key)) weights.others.push_back(printable(key));
  weights.tensors.read = [checkpoint, names = std::move(names)](const std::string& key) {
    const auto found = names.find(key);
    return checkpoint->read(found == names.end() ? std::string_view(key) : found->second);
  };
  return weights;
}

}  // namespace troupe
