// IDX, plain and gzipped: whatever the bytes, a tensor or an Error.

#include "runtime/error.h"
#include "runtime/file/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    (void)troupe::parse_idx(std::as_bytes(std::span(data, size)), "input");
  } catch (const troupe::Error&) {
  }
  return 0;
}
