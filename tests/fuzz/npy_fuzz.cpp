// NumPy's array files: whatever the bytes, a tensor within them or an Error.

#include <cstring>
#include <vector>

#include "runtime/error.h"
#include "runtime/file/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const troupe::Tensor tensor =
        troupe::parse_npy(std::as_bytes(std::span(data, size)), nullptr, "input");
    std::vector<std::byte> elements(tensor.bytes());
    if (!elements.empty()) std::memcpy(elements.data(), tensor.raw(), elements.size());
  } catch (const troupe::Error&) {
  }
  return 0;
}
