#pragma once
// Photographs in files: JPEG and PNG as pixels of 8-bit RGB.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace troupe {

struct ImageSize {
  std::int64_t width = 0, height = 0;  ///< pixels
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

/// A rectangle of an image, in pixels from its left top corner.
struct ImageBox {
  std::int64_t left = 0, top = 0, width = 0, height = 0;
  friend bool operator==(const ImageBox&, const ImageBox&) = default;
};

/// An image of its own size: rows from the top, three bytes (red, green, blue) for each pixel.
struct Image {
  ImageSize size;
  std::vector<std::uint8_t> pixels;
};

/// Chooses a part of an image of that size, inside of it and not empty.
using PartOf = std::function<ImageBox(ImageSize)>;

/// The limit above which Pillow refuses an image as a decompression bomb.
inline constexpr std::int64_t most_image_pixels = 178'956'970;

/// Decodes a JPEG or PNG file, detected by content. The pixels are those of Pillow's
/// `Image.open(file).convert("RGB")`: of an alpha channel or a transparent colour nothing remains,
/// of 16 bits of a colour the upper eight; grey of 16 bits is limited to 255, as Pillow does. CMYK
/// is taken as Adobe's inverted form. An orientation in EXIF is ignored. JPEG is decoded with
/// libjpeg's defaults: the slow integer DCT and smooth upsampling.
///
/// Throws Error{bad_file}, which names `origin`, for anything else, for truncated or damaged files
/// and for more than `most_pixels` pixels, before memory is allocated for them. Takes up to 3 bytes
/// for each pixel, and up to 9 while it decodes a progressive JPEG. Any thread may call it.
Image decode_image(std::span<const std::byte> bytes, const std::string& origin,
                   std::int64_t most_pixels = most_image_pixels);

/// The same where only `part` of the image is needed, which saves time: rows above and below it may
/// stay black. A truncated file is an error even if the part is complete.
Image decode_image(std::span<const std::byte> bytes, const std::string& origin, const PartOf& part,
                   std::int64_t most_pixels = most_image_pixels);

}  // namespace troupe
