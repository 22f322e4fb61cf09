// PNG by libpng. An error jumps back to `guarded`, as in jpeg.cpp: the functions that it jumps over
// have no objects with destructors.

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "runtime/image/formats.h"

namespace troupe {
namespace {

/// Grey of 16 bits as 8: Pillow limits values to 255 instead of scaling them.
void limit_to_8_bits(const png_byte* from, std::int64_t width, std::uint8_t* to) {
  for (; width > 0; --width, from += 2, to += 3) {
    const png_byte grey = from[0] == 0 ? from[1] : 255;
    to[0] = to[1] = to[2] = grey;
  }
}

class PngDecoder {
 public:
  PngDecoder(std::span<const std::byte> bytes, const std::string& origin)
      : bytes_(bytes), origin_(origin) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, auto) {});
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw damaged_image(origin, "libpng has no memory");
    }
    png_set_read_fn(png_, this, read);
    constexpr png_uint_32 none = 1;       // of 0 there would be no limit
    png_set_chunk_cache_max(png_, none);  // texts, which may unpack to gigabytes
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  ImageSize read_header() {
    guarded([&] { png_read_info(png_, info_); });
    return {png_get_image_width(png_, info_), png_get_image_height(png_, info_)};
  }

  void read_pixels(Image& image) {
    const bool is_grey_16 = png_get_bit_depth(png_, info_) == 16 &&
                            png_get_color_type(png_, info_) == PNG_COLOR_TYPE_GRAY;
    int passes = 1;
    guarded([&] {
      if (is_grey_16) {
        png_set_strip_alpha(png_);
      } else {
        png_set_expand(png_);  // a palette and fewer than 8 bits
        png_set_strip_16(png_);
        png_set_strip_alpha(png_);
        png_set_gray_to_rgb(png_);
      }
      passes = png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });
    const auto width = static_cast<std::size_t>(image.size.width);
    if (png_get_rowbytes(png_, info_) != (is_grey_16 ? 2 : 3) * width)
      throw damaged_image(origin_, "unknown kind of pixels");
    // Rows of 16-bit grey are read into the image's memory and widened there afterwards.
    const std::size_t stride = (is_grey_16 ? 2 : 3) * width;
    std::uint8_t* pixels = image.pixels.data();
    guarded([&] {
      for (int pass = 0; pass < passes; ++pass)
        for (std::int64_t y = 0; y < image.size.height; ++y)
          png_read_row(png_, pixels + static_cast<std::size_t>(y) * stride, nullptr);
    });
    if (is_grey_16) widen_grey(image);
  }

 private:
  static void widen_grey(Image& image) {
    const auto width = static_cast<std::size_t>(image.size.width);
    std::vector<png_byte> row(2 * width);
    for (auto y = static_cast<std::size_t>(image.size.height); y-- > 0;) {
      std::copy_n(image.pixels.data() + y * row.size(), row.size(), row.data());
      limit_to_8_bits(row.data(), image.size.width, image.pixels.data() + y * 3 * width);
    }
  }

  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::strncpy(self->message_, message, sizeof self->message_ - 1);
    std::longjmp(self->back_, 1);
  }

  static void read(png_structp png, png_bytep out, std::size_t size) {
    auto* self = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (size > self->bytes_.size()) png_error(png, "the file ends too early");
    std::memcpy(out, self->bytes_.data(), size);
    self->bytes_ = self->bytes_.subspan(size);
  }

  template <class Calls>
  void guarded(const Calls& calls) {
    if (setjmp(back_) != 0) throw damaged_image(origin_, message_);
    calls();
  }

  std::span<const std::byte> bytes_;
  const std::string& origin_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf back_{};
  char message_[128] = {};
};

}  // namespace

Image decode_png(std::span<const std::byte> bytes, const std::string& origin,
                 std::int64_t most_pixels) {
  PngDecoder decoder(bytes, origin);
  Image image = new_image(decoder.read_header(), origin, most_pixels);
  decoder.read_pixels(image);
  return image;
}

}  // namespace troupe
