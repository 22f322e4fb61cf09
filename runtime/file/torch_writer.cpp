// The writer of torch_file.h. Its pickle is what PyTorch's restricted reader takes: an OrderedDict
// of calls of torch._utils._rebuild_tensor_v2, whose storages are members data/0, data/1, …
#include <fmt/format.h>

#include <string>

#include "runtime/file/torch_file.h"
#include "runtime/file/torch_tensor.h"
#include "runtime/file/writable.h"
#include "runtime/file/zip_writer.h"

namespace troupe {
namespace {

/// As torch.save names it where there is no file name, so that the bytes of a file do not depend on
/// its name.
constexpr std::string_view folder = "archive/";

/// Writes opcodes of protocol 2.
class PickleText {
 public:
  void op(std::string_view opcodes) { text_ += opcodes; }
  void global(std::string_view module, std::string_view name) {
    text_ += fmt::format("c{}\n{}\n", module, name);
  }
  void text(std::string_view text) {
    text_ += 'X';
    number(text.size(), 4);
    text_ += text;
  }
  void integer(std::int64_t value) {
    text_ += "\x8a\x08";
    number(static_cast<std::uint64_t>(value), 8);
  }
  void tuple(std::span<const std::int64_t> values) {
    op("(");
    for (const std::int64_t value : values) integer(value);
    op("t");
  }
  const std::string& bytes() const { return text_; }

 private:
  void number(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i) & 0xff);
  }
  std::string text_;
};

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(static_cast<std::size_t>(shape.rank()), 1);
  for (std::size_t axis = strides.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * std::max<std::int64_t>(shape.dims()[axis], 1);
  return strides;
}

void add_tensor(PickleText& pickle, const TensorInfo& tensor, std::size_t key) {
  const auto& [dtype, storage, name] = torch_type_name(tensor.dtype);
  const std::int64_t count = tensor.shape.element_count();
  pickle.global("torch._utils", storage.empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  pickle.op("((");
  pickle.text("storage");
  if (storage.empty())
    pickle.global("torch.storage", "UntypedStorage");
  else
    pickle.global("torch", storage);
  pickle.text(std::to_string(key));
  pickle.text("cpu");
  pickle.integer(storage.empty() ? count * static_cast<std::int64_t>(size_of(dtype)) : count);
  pickle.op("tQ");
  pickle.integer(0);
  pickle.tuple(tensor.shape.dims());
  pickle.tuple(row_major_strides(tensor.shape));
  pickle.op("\x89");
  pickle.global("collections", "OrderedDict");
  pickle.op(")R");
  if (storage.empty()) pickle.global("torch", name);
  pickle.op("tR");
}

std::string pickle_of(const std::vector<TensorInfo>& tensors) {
  PickleText pickle;
  pickle.op("\x80\x02");
  pickle.global("collections", "OrderedDict");
  pickle.op(")R(");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    pickle.text(tensors[i].name);
    add_tensor(pickle, tensors[i], i);
  }
  pickle.op("u.");
  return pickle.bytes();
}

Status add_texts(ZipWriter& zip, const std::vector<TensorInfo>& tensors) {
  const std::pair<std::string_view, std::string> members[] = {
      {"data.pkl", pickle_of(tensors)},
      {".format_version", "1"},
      {".storage_alignment", std::to_string(ZipWriter::alignment)},
      {"byteorder", "little"},
      {"version", "3\n"},
  };
  for (const auto& [name, text] : members)
    if (Status status = zip.add(fmt::format("{}{}", folder, name), as_bytes(text)); !status)
      return status;
  return success();
}

}  // namespace

Status stream_torch_file(const std::filesystem::path& path, const TensorSource& source,
                         const WriteHook& hook) {
  writable::check_names(source.tensors, path);
  const auto produce = [&](OutputFile& file) -> Status {
    ZipWriter zip(file);
    if (Status status = add_texts(zip, source.tensors); !status) return status;
    for (std::size_t i = 0; i < source.tensors.size(); ++i) {
      const Tensor tensor = source.read(source.tensors[i].name);
      writable::check(source.tensors[i], tensor, path);
      const std::span<const std::byte> bytes(tensor.raw(), tensor.bytes());
      if (Status status = zip.add(fmt::format("{}data/{}", folder, i), bytes); !status)
        return status;
    }
    return zip.finish();
  };
  return write_file(path, produce, hook);
}

}  // namespace troupe
