// JPEG by libjpeg-turbo. libjpeg reports an error by a function that may not return: it jumps back
// to `guarded`. So the functions that it jumps over have no objects with destructors.

// jpeglib.h uses size_t and FILE, jerror.h uses jpeglib.h.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <iterator>
#include <vector>

#include "runtime/image/formats.h"

namespace troupe {
namespace {

/// More scans than any camera or program writes. A tiny file can otherwise keep a decoder busy for
/// minutes.
constexpr int most_scans = 500;

struct ErrorManager {
  jpeg_error_mgr base;  // first: libjpeg gives its address back
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* errors = reinterpret_cast<ErrorManager*>(info->err);
  errors->base.format_message(info, errors->message);
  std::longjmp(errors->back, 1);
}

boolean on_end_of_input(j_decompress_ptr info) {
  ERREXIT(info, JERR_INPUT_EOF);
  return FALSE;
}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= most_scans) return;
  auto* errors = reinterpret_cast<ErrorManager*>(info->err);
  std::strcpy(errors->message, "it has more than 500 scans");
  std::longjmp(errors->back, 1);
}

/// From CMYK as Adobe's programs store it, inverted, to RGB: R = C K / 255, rounded as Pillow does.
void convert_cmyk(const JSAMPLE* from, JDIMENSION width, std::uint8_t* to) {
  for (JDIMENSION x = 0; x < width; ++x, from += 4, to += 3) {
    const int black = from[3];
    for (int channel = 0; channel < 3; ++channel) {
      const int product = (255 - from[channel]) * black + 128;
      to[channel] = static_cast<std::uint8_t>(black - (((product >> 8) + product) >> 8));
    }
  }
}

class JpegDecoder {
 public:
  JpegDecoder(std::span<const std::byte> bytes, const std::string& origin) : origin_(origin) {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = on_error;
    errors_.base.output_message = [](j_common_ptr) {};  // warnings
    guarded([&] {
      jpeg_create_decompress(&info_);
      jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    });
    info_.src->fill_input_buffer = on_end_of_input;
    progress_.progress_monitor = on_progress;
    info_.progress = &progress_;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  ImageSize read_header() {
    guarded([&] { jpeg_read_header(&info_, TRUE); });
    const J_COLOR_SPACE stored = info_.jpeg_color_space;
    if (stored == JCS_UNKNOWN)
      throw damaged_image(origin_, "its colours are neither grey, YCbCr, RGB nor CMYK");
    is_cmyk_ = stored == JCS_CMYK || stored == JCS_YCCK;
    info_.out_color_space = is_cmyk_ ? JCS_CMYK : JCS_RGB;
    return {info_.image_width, info_.image_height};
  }

  /// Rows [top, bottom).
  void read_rows(std::uint8_t* pixels, std::int64_t top, std::int64_t bottom) {
    std::vector<JSAMPLE> cmyk(is_cmyk_ ? std::size_t{4} * info_.image_width : 0);
    pixels += top * 3 * info_.image_width;
    guarded([&] {
      jpeg_start_decompress(&info_);
      if (top > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(top));
      for (; info_.output_scanline < bottom; pixels += 3 * info_.output_width) {
        JSAMPROW row = is_cmyk_ ? cmyk.data() : pixels;
        jpeg_read_scanlines(&info_, &row, 1);
        if (is_cmyk_) convert_cmyk(row, info_.output_width, pixels);
      }
    });
    expect_end();
  }

 private:
  template <class Calls>
  void guarded(const Calls& calls) {
    if (setjmp(errors_.back) != 0) throw damaged_image(origin_, errors_.message);
    calls();
  }

  /// Throws unless the marker of the image's end follows, as Pillow does. The compressed data
  /// cannot contain it.
  void expect_end() {
    if (jpeg_input_complete(&info_) || info_.unread_marker == JPEG_EOI) return;
    const JOCTET *next = info_.src->next_input_byte, *last = next + info_.src->bytes_in_buffer;
    constexpr JOCTET end[]{0xff, JPEG_EOI};
    if (std::search(next, last, std::begin(end), std::end(end)) == last)
      throw damaged_image(origin_, "the file ends too early");
  }

  const std::string& origin_;
  jpeg_decompress_struct info_{};
  ErrorManager errors_{};
  jpeg_progress_mgr progress_{};
  bool is_cmyk_ = false;
};

}  // namespace

Image decode_jpeg(std::span<const std::byte> bytes, const std::string& origin, const PartOf& part,
                  std::int64_t most_pixels) {
  JpegDecoder decoder(bytes, origin);
  Image image = new_image(decoder.read_header(), origin, most_pixels);
  const ImageBox rows = part(image.size);
  decoder.read_rows(image.pixels.data(), rows.top, rows.top + rows.height);
  return image;
}

}  // namespace troupe
