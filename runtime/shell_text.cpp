#include "runtime/shell_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>

#include "runtime/text.h"

namespace troupe {
namespace {

/// Whether it has only letters, digits and these marks, which a shell leaves alone.
bool is_plain(std::string_view text, std::string_view marks) {
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (static_cast<unsigned char>(c) < 0x80 && std::isalnum(c) != 0) ||
           marks.find(c) != std::string_view::npos;
  });
}

}  // namespace

std::string shell_word(std::string_view word) {
  if (is_plain(word, "_./:,+=%@-")) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shell_value(const std::string& value) {
  if (is_plain(value, "_./:,+=%@-^")) return value;
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\' || c == '`') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string with_reason(const std::string& text, const std::string& why) {
  constexpr std::size_t column = 46;
  if (why.empty()) return text + "\n";
  const std::size_t gap = text.size() + 2 < column ? column - text.size() : 2;
  return fmt::format("{}{}# {}\n", text, std::string(gap, ' '), why);
}

std::string in_one_line(std::string text) {
  std::ranges::replace_if(text, is_control, ' ');
  return text;
}

std::string comment(const std::string& sentence) {
  constexpr std::size_t longest = 100;
  std::string lines, line = "#";
  std::istringstream words(sentence);
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > longest) lines += std::exchange(line, "#  ") + "\n";
    line += " " + word;
  }
  return lines + line + "\n";
}

}  // namespace troupe
