// PyTorch's files: whatever the bytes, weights or an Error; no code runs, and memory is bounded.

#include <cstdlib>

#include "runtime/error.h"
#include "runtime/file/pickle.h"
#include "runtime/file/torch_file.h"
#include "runtime/file/torch_tensor.h"

namespace {

using namespace troupe;

void read_all(std::span<const std::byte> bytes) {
  const TorchWeights weights = parse_torch_file(bytes, "input");
  std::size_t read = 0;
  for (const TensorInfo& info : weights.tensors.tensors) {
    constexpr std::size_t enough = 10;  // a small file may have many tensors of its size
    if (++read > enough) break;
    try {
      const Tensor tensor = weights.tensors.read(info.name);
      if (tensor.shape() != info.shape || tensor.dtype() != info.dtype) std::abort();
      unsigned sum = 0;
      for (const std::byte byte : std::span(tensor.raw(), tensor.bytes()))
        sum += std::to_integer<unsigned>(byte);
      volatile unsigned kept = sum;  // so that all bytes are read
      (void)kept;
    } catch (const Error&) {
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    read_all(bytes);
  } catch (const Error&) {
  }
  // The pickle alone, which the checksum of an archive protects from changes.
  try {
    const Pickle pickle(bytes, "input", PickleObjects::named);
    if (is_torch_tensor(pickle.value())) (void)torch_tensor(pickle.value(), "input");
  } catch (const Error&) {
  }
  return 0;
}
