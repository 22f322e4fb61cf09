// tar archives, plain and gzip: whatever the bytes, members within the bounds or an Error.

#include <cstdint>
#include <cstdlib>

#include "runtime/error.h"
#include "runtime/file/tar.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t most = 1 << 16;
  const auto bytes = std::as_bytes(std::span(data, size));
  for (const bool reads : {false, true}) try {
      troupe::TarReader reader(bytes, "input", most);
      while (const auto member = reader.next()) {
        if (member->bytes > most) std::abort();
        if (reads && reader.content().size() != member->bytes) std::abort();
      }
    } catch (const troupe::Error&) {
    }
  return 0;
}
