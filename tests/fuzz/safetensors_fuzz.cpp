// safetensors: whatever the bytes, tensors within them or an Error.

#include <cstdint>

#include "runtime/error.h"
#include "runtime/file/digest.h"
#include "runtime/file/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto file = troupe::parse_safetensors(std::as_bytes(std::span(data, size)), "input");
    (void)troupe::digest(file.tensors);  // looks at every byte
  } catch (const troupe::Error&) {
  }
  return 0;
}
