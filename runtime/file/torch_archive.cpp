#include "runtime/file/torch_archive.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/error.h"
#include "runtime/file/torch_file.h"
#include "runtime/text.h"
#include "runtime/world/memory_limit.h"

namespace troupe {
namespace {

constexpr std::string_view program_name = "data.pkl";
/// More than a pickle of Pickle::most_opcodes needs.
constexpr std::uint64_t most_program_bytes = std::uint64_t{1} << 28;

bool has(const ZipArchive& zip, std::string_view end) {
  return std::ranges::any_of(zip.members(),
                             [&](const ZipMember& member) { return member.name.ends_with(end); });
}

[[noreturn]] void refuse(const ZipArchive& zip, const std::string& what,
                         const std::string& remedy) {
  throw Error(ErrorCode::bad_file, fmt::format("reading '{}': {}", zip.origin(), what), remedy);
}

void check_kind(const ZipArchive& zip) {
  const std::string path = zip.origin();
  if (has(zip, "/constants.pkl"))
    refuse(zip, "it is a TorchScript program, not weights",
           fmt::format("{}; or save its weights: {}", torch_export_line,
                       weights_command("torch.jit.load(file, 'cpu').state_dict()", path)));
  if (has(zip, "/models/model.json"))
    refuse(zip, "it is an exported model, not weights",
           "use it as the model, or save its weights: " +
               weights_command("torch.export.load(file).state_dict", path));
  if (has(zip, ".npy"))
    refuse(zip, "it is an archive of NumPy arrays, not of torch.save",
           "arrays are data: set `Dataset::name` to npz and `Dataset::path` to the file; save "
           "weights with torch.save(net.state_dict(), 'weights.pt')");
}

/// The folder that all members are in: that of the pickle.
std::string folder_of(const ZipArchive& zip) {
  const ZipMember* found = nullptr;
  for (const ZipMember& member : zip.members()) {
    const std::size_t slash = member.name.find('/');
    if (slash == std::string::npos || member.name.substr(slash + 1) != program_name) continue;
    if (found != nullptr) refuse(zip, "it has two pickles", "write it again with torch.save");
    found = &member;
  }
  if (found == nullptr)
    refuse(zip, "it is a zip archive, but none that torch.save has written",
           "save weights with torch.save(net.state_dict(), 'weights.pt')");
  return found->name.substr(0, found->name.size() - program_name.size());
}

void check_byte_order(const ZipArchive& zip, const std::string& folder) {
  const ZipMember* order = zip.find(folder + "byteorder");
  if (order == nullptr) return;
  constexpr std::uint64_t longest = 16;
  const std::string text(zip.content(*order, longest).text());
  if (text != "little")
    throw Error(ErrorCode::unsupported,
                fmt::format("reading '{}': its byte order is '{}'", zip.origin(), printable(text)),
                "save it again on a little-endian machine");
}

}  // namespace

TorchArchive::TorchArchive(ZipArchive zip) : zip_(std::move(zip)) {
  check_kind(zip_);
  for (const ZipMember& member : zip_.members()) most_bytes_ += member.packed_size;
  folder_ = folder_of(zip_);
  check_byte_order(zip_, folder_);
  program_ = zip_.content(zip_.at(folder_ + std::string(program_name)), most_program_bytes);
  pickle_ = std::make_unique<const Pickle>(program_.bytes, origin(), PickleObjects::named);
  verified_ = std::make_unique<std::atomic<bool>[]>(zip_.members().size());
}

const ZipMember& TorchArchive::storage_of(const TorchTensor& tensor) const {
  return zip_.at(folder_ + "data/" + std::string(tensor.storage));
}

void TorchArchive::check_copies(std::span<const TorchTensor> tensors) const {
  constexpr std::uint64_t usual = std::uint64_t{16} << 20, most_times = 16;
  std::uint64_t bytes = usual, copied = 0;
  for (const ZipMember& member : zip_.members())
    if (__builtin_add_overflow(bytes, member.size, &bytes)) return;
  for (const TorchTensor& tensor : tensors) {
    const ZipMember& member = storage_of(tensor);
    const std::uint64_t more =  // `read` refuses more
        member.is_stored() ? std::min(copied_bytes(tensor, member.begin), most_bytes_)
                           : member.size;
    if (__builtin_add_overflow(copied, more, &copied) || copied / most_times > bytes)
      refuse(zip_,
             fmt::format("its {} tensors are views of the same memory, and together more than {} "
                         "times as large as the file",
                         tensors.size(), most_times),
             "save copies: {name: tensor.contiguous() for name, tensor in state.items()}");
  }
}

Tensor TorchArchive::read(const TorchTensor& tensor, const std::string& where) const {
  const ZipMember& member = storage_of(tensor);
  if (member.size != tensor.storage_bytes)
    zip_.fail(member, fmt::format("it has {} bytes, but the storage of a tensor {}", member.size,
                                  tensor.storage_bytes));
  if (!member.is_stored()) {
    const ZipContent content = zip_.content(member, memory_limit().bytes);
    return elements_of(tensor, content.bytes, content.owner, content.bytes.size() + most_bytes_,
                       where);
  }
  const std::span<const std::byte> bytes = zip_.stored(member);
  // Several threads may compare the same storage; the result is the same.
  std::atomic<bool>& verified =
      verified_[static_cast<std::size_t>(&member - zip_.members().data())];
  if (!verified.load(std::memory_order_relaxed)) {
    zip_.verify(member, bytes);
    verified.store(true, std::memory_order_relaxed);
  }
  return elements_of(tensor, bytes, zip_.owner(), most_bytes_, where);
}

}  // namespace troupe
