#include "runtime/file/gzip.h"

#include <fmt/format.h>
#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

#include "runtime/error.h"

namespace troupe {
namespace {

constexpr int gzip_only = 16 + MAX_WBITS;  // zlib's spelling: a gzip header, the largest window

uInt clamp(std::size_t size) {
  return static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
}

}  // namespace

struct GzipReader::State {
  std::span<const std::byte> rest;
  std::string origin;
  z_stream stream{};
  bool member_ended = false;

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorCode::bad_file, fmt::format("reading '{}': {}", origin, what),
                "the file is damaged or truncated: download it again");
  }
};

GzipReader::GzipReader(std::span<const std::byte> bytes, std::string origin)
    : state_(std::make_unique<State>()) {
  state_->rest = bytes;
  state_->origin = std::move(origin);
  if (inflateInit2(&state_->stream, gzip_only) != Z_OK) throw std::bad_alloc();
}

GzipReader::~GzipReader() { inflateEnd(&state_->stream); }

bool GzipReader::is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

std::size_t GzipReader::read_some(std::span<std::byte> out) {
  State& state = *state_;
  z_stream& stream = state.stream;
  while (true) {
    if (state.member_ended) {
      if (state.rest.empty()) return 0;
      if (!is_gzip(state.rest))
        state.fail(fmt::format("{} bytes after the end of the gzip data", state.rest.size()));
      inflateReset(&stream);
      state.member_ended = false;
    }
    const uInt given = clamp(state.rest.size());
    const uInt wanted = clamp(out.size());
    // zlib's interface predates const; it does not write its input.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(state.rest.data()));
    stream.avail_in = given;
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = wanted;
    const int code = inflate(&stream, Z_NO_FLUSH);
    state.rest = state.rest.subspan(given - stream.avail_in);
    state.member_ended = code == Z_STREAM_END;
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
      state.fail(fmt::format("gzip data are damaged ({})", stream.msg ? stream.msg : "zlib"));
    const std::size_t filled = wanted - stream.avail_out;
    if (filled > 0) return filled;
    if (!state.member_ended && state.rest.empty()) state.fail("gzip data end too early");
  }
}

void GzipReader::read(std::span<std::byte> out) {
  while (!out.empty()) {
    const std::size_t filled = read_some(out);
    if (filled == 0)
      state_->fail(fmt::format("the unpacked data end {} bytes too early", out.size()));
    out = out.subspan(filled);
  }
}

void GzipReader::expect_end() {
  std::byte more{};
  if (read_some({&more, 1}) != 0) state_->fail("more data than its header states");
}

bool unpack_gzip(std::span<const std::byte> bytes, std::span<std::byte> out) {
  const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> decompressor(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  if (!decompressor) return false;
  std::size_t read = 0, written = 0;
  const auto result = libdeflate_gzip_decompress_ex(decompressor.get(), bytes.data(), bytes.size(),
                                                    out.data(), out.size(), &read, &written);
  return result == LIBDEFLATE_SUCCESS && read == bytes.size() && written == out.size();
}

}  // namespace troupe
