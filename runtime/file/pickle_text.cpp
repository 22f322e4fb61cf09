#include "runtime/file/pickle_text.h"

#include <charconv>
#include <cstdint>

namespace troupe::pickle_text {
namespace {

/// The number in the first `digits` hexadecimal digits of `text`.
std::optional<std::uint32_t> hexadecimal(std::string_view text, std::size_t digits) {
  std::uint32_t value = 0;
  if (text.size() < digits) return std::nullopt;
  const char* end = text.data() + digits;
  const auto [stopped, error] = std::from_chars(text.data(), end, value, 16);
  if (error != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

void add_utf8(std::string& to, std::uint32_t character) {
  const auto add = [&](std::uint32_t byte) { to += static_cast<char>(byte); };
  const auto add_rest = [&](int shift) { add(0x80 | (character >> shift & 0x3f)); };
  if (character < 0x80) return add(character);
  if (character < 0x800) {
    add(0xc0 | character >> 6);
  } else if (character < 0x10000) {
    add(0xe0 | character >> 12);
    add_rest(6);
  } else {
    add(0xf0 | character >> 18);
    add_rest(12);
    add_rest(6);
  }
  add_rest(0);
}

/// The byte of an escape of one letter, such as n.
std::optional<char> escaped(char letter) {
  constexpr std::string_view letters = "\\'\"nrtabfv0", bytes{"\\'\"\n\r\t\a\b\f\v\0", 11};
  const std::size_t found = letters.find(letter);
  if (found == std::string_view::npos) return std::nullopt;
  return bytes[found];
}

}  // namespace

std::optional<std::string> from_literal(std::string_view literal) {
  if (literal.size() < 2 || literal.front() != literal.back() ||
      (literal.front() != '\'' && literal.front() != '"'))
    return std::nullopt;
  const std::string_view inside = literal.substr(1, literal.size() - 2);
  std::string bytes;
  for (std::size_t at = 0; at < inside.size(); ++at) {
    if (inside[at] != '\\') {
      bytes += inside[at];
      continue;
    }
    if (++at == inside.size()) return std::nullopt;
    if (inside[at] == 'x') {
      const auto value = hexadecimal(inside.substr(at + 1), 2);
      if (!value) return std::nullopt;
      bytes += static_cast<char>(*value);
      at += 2;
    } else if (const auto byte = escaped(inside[at])) {
      bytes += *byte;
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

std::optional<std::string> from_raw_unicode(std::string_view raw) {
  constexpr std::uint32_t end_of_unicode = 0x110000;
  std::string text;
  for (std::size_t at = 0; at < raw.size(); ++at) {
    const char next = at + 1 < raw.size() ? raw[at + 1] : '\0';
    if (raw[at] != '\\' || (next != 'u' && next != 'U')) {
      add_utf8(text, static_cast<unsigned char>(raw[at]));
      continue;
    }
    const std::size_t digits = next == 'u' ? 4 : 8;
    const auto character = hexadecimal(raw.substr(at + 2), digits);
    if (!character || *character >= end_of_unicode) return std::nullopt;
    add_utf8(text, *character);
    at += 1 + digits;
  }
  return text;
}

std::optional<std::string> to_latin1(std::string_view utf8) {
  std::string bytes;
  for (std::size_t at = 0; at < utf8.size(); ++at) {
    const auto first = static_cast<unsigned char>(utf8[at]);
    if (first < 0x80) {
      bytes += utf8[at];
      continue;
    }
    if ((first != 0xc2 && first != 0xc3) || at + 1 == utf8.size()) return std::nullopt;
    const auto second = static_cast<unsigned char>(utf8[++at]);
    if ((second & 0xc0) != 0x80) return std::nullopt;
    bytes += static_cast<char>((first & 0x03) << 6 | (second & 0x3f));
  }
  return bytes;
}

}  // namespace troupe::pickle_text
