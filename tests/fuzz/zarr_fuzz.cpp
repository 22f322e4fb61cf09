// Arrays of zarr: whatever the metadata and a chunk, elements or an Error, in memory that the
// metadata bound. The input is the metadata, a zero byte, and the bytes of a chunk.

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/error.h"
#include "runtime/file/zarr_metadata.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t most_bytes = std::size_t{1} << 20;  // larger ones only take longer
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto split = std::min(text.find('\0'), text.size());
  const auto chunk = std::as_bytes(std::span(text)).subspan(std::min(split + 1, text.size()));
  for (const auto parse : {troupe::zarr::parse_format_2, troupe::zarr::parse_format_3}) try {
      const troupe::zarr::Metadata metadata = parse(text.substr(0, split), "x");
      (void)metadata.key({});
      if (metadata.chunk_bytes() > most_bytes) continue;
      (void)troupe::zarr::decoded({chunk.begin(), chunk.end()}, metadata.codecs,
                                  metadata.chunk_bytes(), "x");
    } catch (const troupe::Error&) {
    }
  return 0;
}
