#include "runtime/file/pickle_program.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>

#include "runtime/error.h"

namespace troupe {
namespace {

/// Whether `text` is a number and nothing else.
template <class T>
bool parse(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stopped == end;
}

}  // namespace

void PickleProgram::fail(const std::string& what, const char* remedy) const {
  throw Error(ErrorCode::bad_file,
              fmt::format("reading pickle '{}': before byte {}: {}", origin_, at_, what), remedy);
}

std::string_view PickleProgram::take(std::uint64_t size) {
  if (size > bytes_.size() - at_)
    fail(fmt::format("{} bytes should follow, but {} do", size, bytes_.size() - at_));
  at_ += size;
  return bytes_.substr(at_ - size, size);
}

std::string_view PickleProgram::take_line() {
  const std::size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) fail("a line does not end");
  std::string_view line = take(end + 1 - at_);
  line.remove_suffix(1);
  return line;
}

std::uint64_t PickleProgram::take_number(std::size_t size) {
  const std::string_view raw = take(size);
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(raw[i]);
  return value;
}

std::int64_t PickleProgram::take_signed(std::uint64_t size) {
  if (size > 8) fail(fmt::format("an integer has {} bytes, more than 8", size));
  if (size == 0) return 0;
  const int unused = 64 - 8 * static_cast<int>(size);
  return static_cast<std::int64_t>(take_number(size) << unused) >> unused;
}

double PickleProgram::take_real() {
  std::uint64_t bits = 0;
  for (const char byte : take(sizeof bits)) bits = bits << 8 | static_cast<unsigned char>(byte);
  return std::bit_cast<double>(bits);
}

std::int64_t PickleProgram::decimal(std::string_view line) const {
  if (line.ends_with('L')) line.remove_suffix(1);  // as Python 2 marks long integers
  std::int64_t value = 0;
  if (!parse(line, value)) fail("a line holds no whole number of 64 bits");
  return value;
}

double PickleProgram::take_decimal_real() {
  double value = 0;
  if (!parse(take_line(), value)) fail("a line holds no number");
  return value;
}

}  // namespace troupe
