// JPEG and PNG: whatever the bytes, an image of at most a million pixels or an Error of the file.

#include <cstdint>
#include <cstdlib>

#include "runtime/error.h"
#include "runtime/image/image.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::int64_t most_pixels = 1'000'000;
  try {
    const troupe::Image image =
        troupe::decode_image(std::as_bytes(std::span(data, size)), "input", most_pixels);
    const std::int64_t pixels = image.size.width * image.size.height;
    if (pixels > most_pixels || image.pixels.size() != static_cast<std::size_t>(3 * pixels))
      std::abort();
  } catch (const troupe::Error& error) {
    if (error.code() != troupe::ErrorCode::bad_file) std::abort();
  }
  return 0;
}
