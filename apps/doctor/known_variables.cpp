#include "apps/doctor/known_variables.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "runtime/text.h"

namespace troupe {
namespace {

std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t bar = name.find('_');
    words.push_back(name.substr(0, bar));
    if (bar == std::string_view::npos) return words;
    name.remove_prefix(bar + 1);
  }
}

/// Whether `name` is `known` without one of its words, or with its words in another order.
bool same_words(std::string_view name, std::string_view known) {
  std::vector<std::string_view> a = words_of(name), b = words_of(known);
  constexpr std::size_t enough = 4;  // two words in common say nothing
  if (b.size() >= enough && a.size() + 1 == b.size()) {
    const auto differ = std::mismatch(a.begin(), a.end(), b.begin());
    return std::equal(differ.first, a.end(), differ.second + 1);
  }
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return b.size() > 2 && a == b;
}

}  // namespace

std::optional<std::string> meant_variable(std::string_view name) {
  constexpr std::size_t longest = 128;  // the distance takes the product of two lengths
  if (name.size() > longest) return std::nullopt;
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const VariableFamily& family : variable_families()) {
    if (std::find(family.names.begin(), family.names.end(), name) != family.names.end())
      return std::nullopt;
    if (!upper.starts_with(family.prefix)) continue;
    const bool by_words = family.most_edits > 1;
    for (const std::string_view known : family.names)
      if (upper == known || (by_words && same_words(upper, known))) return std::string(known);
    const std::string best = nearest(upper, family.names);
    // A short name is near to many: "FI_X" to "FI_HMEM".
    const std::size_t most = std::min(family.most_edits, (upper.size() - family.prefix.size()) / 3);
    if (!best.empty() && edit_distance(upper, best) <= most) return best;
  }
  return std::nullopt;
}

bool is_unknown_of_ours(std::string_view name) {
  const auto ours = *std::ranges::find(variable_families(), "Troupe", &VariableFamily::owner);
  return name.starts_with(ours.prefix) && std::ranges::find(ours.names, name) == ours.names.end();
}

}  // namespace troupe
