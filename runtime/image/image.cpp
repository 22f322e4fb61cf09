#include "runtime/image/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/image/formats.h"

namespace troupe {
namespace {

constexpr std::array<unsigned char, 3> jpeg_start{0xff, 0xd8, 0xff};
constexpr std::array<unsigned char, 8> png_start{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

bool starts_with(std::span<const std::byte> bytes, std::span<const unsigned char> start) {
  return bytes.size() >= start.size() &&
         std::equal(start.begin(), start.end(), bytes.begin(),
                    [](unsigned char a, std::byte b) { return std::byte{a} == b; });
}

}  // namespace

Image decode_image(std::span<const std::byte> bytes, const std::string& origin,
                   std::int64_t most_pixels) {
  return decode_image(
      bytes, origin,
      [](ImageSize size) {
        return ImageBox{0, 0, size.width, size.height};
      },
      most_pixels);
}

Image decode_image(std::span<const std::byte> bytes, const std::string& origin, const PartOf& part,
                   std::int64_t most_pixels) {
  if (starts_with(bytes, jpeg_start)) return decode_jpeg(bytes, origin, part, most_pixels);
  if (starts_with(bytes, png_start)) {
    Image image = decode_png(bytes, origin, most_pixels);
    part(image.size);  // a caller learns the size from it
    return image;
  }
  throw Error(ErrorCode::bad_file,
              bytes.empty() ? fmt::format("{} is empty", origin)
                            : fmt::format("{} is neither a JPEG nor a PNG file", origin),
              "fetch the file again, or remove it from the data set");
}

Image new_image(ImageSize size, const std::string& origin, std::int64_t most_pixels) {
  if (size.width < 1 || size.height < 1 || size.width > most_pixels / size.height)
    throw Error(ErrorCode::bad_file,
                fmt::format("{} states {} × {} pixels; an image has from 1 to {} of them", origin,
                            size.width, size.height, most_pixels),
                "scale the image down, or remove it from the data set");
  return {size, std::vector<std::uint8_t>(static_cast<std::size_t>(size.width * size.height * 3))};
}

Error damaged_image(const std::string& origin, const char* reason) {
  return Error(ErrorCode::bad_file, fmt::format("{} cannot be decoded: {}", origin, reason),
               "fetch the file again, or remove it from the data set");
}

}  // namespace troupe
