#include "runtime/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <strings.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace troupe {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, row[j - 1] + 1, last[j] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last.back();
}

std::string nearest(std::string_view word, std::span<const std::string_view> candidates) {
  const auto best = std::min_element(candidates.begin(), candidates.end(), [&](auto a, auto b) {
    return edit_distance(word, a) < edit_distance(word, b);
  });
  return best == candidates.end() ? std::string() : std::string(*best);
}

namespace {

/// Whether `word` has half of the characters of `name` in their order, with the first and the last.
bool abbreviates(std::string_view word, std::string_view name) {
  if (word.size() < 2 || 2 * word.size() < name.size() || name.empty() ||
      word.front() != name.front() || word.back() != name.back())
    return false;
  std::size_t found = 0;
  for (const char character : name)
    if (found < word.size() && character == word[found]) ++found;
  return found == word.size();
}

}  // namespace

std::string meant(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t telling = 4;  // characters: fewer begin too many names
  constexpr std::size_t longest = 64;
  word = word.substr(0, longest);
  for (const std::string_view name : candidates)
    if (word.size() == name.size() && ::strncasecmp(word.data(), name.data(), name.size()) == 0)
      return std::string(name);
  for (const std::string_view name : candidates)
    if (word.size() >= telling && name.starts_with(word)) return std::string(name);
  std::string best = nearest(word, candidates);
  if (!best.empty() && 3 * edit_distance(word, best) <= std::max(word.size(), std::size_t{3}))
    return best;
  for (const std::string_view name : candidates)  // a beginning with a slip at its end
    if (word.size() > telling && name.starts_with(word.substr(0, word.size() - 1)))
      return std::string(name);
  for (const std::string_view name : candidates)
    if (word.size() >= telling && name.ends_with(word)) return std::string(name);
  for (const std::string_view name : candidates)
    if (abbreviates(word, name)) return std::string(name);
  return {};
}

namespace {

/// The length of the longest end that two dotted names share, from a dot on: 7 of "a.b.weight" and
/// "c.weight".
std::size_t common_end(std::string_view a, std::string_view b) {
  std::size_t whole = 0;
  for (std::size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    if (a[a.size() - i] != b[b.size() - i]) break;
    if (a[a.size() - i] == '.') whole = i;
  }
  return whole;
}

/// The only one of `others` that shares the longest end with the name, if it shares none as long
/// with another one of `own`; else empty.
std::string partner(std::string_view name, std::span<const std::string_view> others,
                    std::span<const std::string_view> own) {
  std::string_view best;
  std::size_t longest = 0, found = 0;
  for (const std::string_view other : others) {
    const std::size_t shared = common_end(name, other);
    if (shared > longest) best = other, longest = shared, found = 0;
    if (shared > 0 && shared == longest) ++found;
  }
  const bool is_wanted = std::ranges::any_of(own, [&](std::string_view rival) {
    return rival != name && common_end(rival, best) >= longest;
  });
  return found == 1 && !is_wanted ? std::string(best) : std::string();
}

}  // namespace

std::string similar_name(std::string_view name, std::span<const std::string_view> others,
                         std::span<const std::string_view> own) {
  if (std::string found = meant(name, others); !found.empty()) return found;
  for (const std::string_view other : others)
    if (!other.empty() && name.ends_with(other) && name.size() > other.size() &&
        name[name.size() - other.size() - 1] == '.')
      return std::string(other);
  return partner(name, others, own);
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates,
                         std::string rest) {
  const std::string near = meant(word, candidates);
  if (near.empty()) return rest;
  if (rest.empty()) return fmt::format("did you mean {}?", near);
  if (rest[0] >= 'a' && rest[0] <= 'z') rest[0] = static_cast<char>(rest[0] - 'a' + 'A');
  return fmt::format("did you mean {}? {}", near, rest);
}

bool is_control(unsigned char character) { return character < ' ' || character == 0x7f; }

namespace {

/// The bytes of the character of UTF-8 that the text begins with; 0 if that is none. Longer forms
/// than needed are none: U+009B begins what ESC [ does, in whatever form a terminal accepts it.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t count = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (count == 0 || first > 0xf4 || count > text.size()) return 0;
  for (std::size_t i = 1; i < count; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool is_too_long = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  return is_too_long ? 0 : count;
}

}  // namespace

std::string printable(std::string_view text, std::size_t longest, std::string_view kept) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(1, bytes));
    if (character.size() > longest - shown.size()) break;
    const bool is_wide_control =
        bytes == 2 && character[0] == '\xc2' && static_cast<unsigned char>(character[1]) < 0xa0;
    const bool is_narrow_control = is_control(static_cast<unsigned char>(character[0])) &&
                                   kept.find(character[0]) == kept.npos;
    if (bytes == 0 || is_wide_control || is_narrow_control)
      shown += '?';
    else
      shown += character;
    text.remove_prefix(character.size());
  }
  return shown;
}

std::string listed(std::span<const std::string> names, std::size_t at_most) {
  const bool all = names.size() <= at_most + 1;  // a name takes no more room than "and 1 more"
  const auto shown = names.subspan(0, all ? names.size() : at_most);
  const std::string more =
      names.size() > shown.size() ? fmt::format(" and {} more", names.size() - shown.size()) : "";
  return fmt::format("{}{}", fmt::join(shown, ", "), more);
}

std::string ranges(std::span<const int> numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : " ", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string counted(std::int64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing,
                     count == 1                                      ? ""
                     : thing.ends_with('s') || thing.ends_with("ch") ? "es"
                                                                     : "s");
}

std::string in_words(std::chrono::milliseconds time) {
  if (std::chrono::abs(time) < std::chrono::seconds(1)) return fmt::format("{} ms", time.count());
  return fmt::format("{} s", static_cast<double>(time.count()) / 1000);
}

std::pair<std::string, std::string> first_difference(std::string_view a, std::string_view b) {
  const auto take_line = [](std::string_view& text) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    return line;
  };
  while (!a.empty() || !b.empty()) {
    const std::string_view here = take_line(a), there = take_line(b);
    if (here != there) return {std::string(here), std::string(there)};
  }
  return {};
}

}  // namespace troupe
