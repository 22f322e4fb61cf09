#pragma once
// One function for each format; decode_image (runtime/image/image.h) chooses.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/error.h"
#include "runtime/image/image.h"

namespace troupe {

Image decode_jpeg(std::span<const std::byte> bytes, const std::string& origin, const PartOf& part,
                  std::int64_t most_pixels);
Image decode_png(std::span<const std::byte> bytes, const std::string& origin,
                 std::int64_t most_pixels);

/// An image of that size, black. Throws Error{bad_file} above `most_pixels`.
Image new_image(ImageSize size, const std::string& origin, std::int64_t most_pixels);

/// The error of a file that its library refuses with `reason`.
Error damaged_image(const std::string& origin, const char* reason);

}  // namespace troupe
