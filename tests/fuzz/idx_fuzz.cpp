// IDX, plain and gzipped: whatever the bytes, a tensor or an Error; and the fast way to unpack them
// gives the same as the careful one.

#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime/error.h"
#include "runtime/file/gzip.h"
#include "runtime/file/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const troupe::Tensor tensor = troupe::parse_idx(bytes, "input");
    const std::size_t header = 4 + 4 * static_cast<std::size_t>(tensor.rank());
    std::vector<std::byte> whole(header + tensor.bytes());
    if (troupe::unpack_gzip(bytes, whole) && tensor.bytes() > 0 &&
        std::memcmp(whole.data() + header, tensor.raw(), tensor.bytes()) != 0)
      std::abort();
  } catch (const troupe::Error&) {
  }
  return 0;
}
