#include "ops/nn/name_prefixes.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/text.h"

namespace troupe {

std::map<std::string_view, std::size_t> fitting_prefixes(
    const std::vector<std::string_view>& names,
    const std::unordered_set<std::string_view>& wanted) {
  constexpr int most_modules = 8;
  std::map<std::string_view, std::size_t> fits;
  for (const std::string_view name : names) {
    std::size_t dot = name.find('.');
    for (int i = 0; i < most_modules && dot != name.npos; ++i, dot = name.find('.', dot + 1))
      if (wanted.contains(name.substr(dot + 1))) ++fits[name.substr(0, dot + 1)];
  }
  return fits;
}

std::string prefix_hint(const std::vector<std::string_view>& names,
                        const std::unordered_set<std::string_view>& wanted) {
  const auto fits = fitting_prefixes(names, wanted);
  std::size_t most = 0;
  for (const auto& [prefix, count] : fits) most = std::max(most, count);
  if (most < 2) return {};
  std::vector<std::string> best;
  for (const auto& [prefix, count] : fits)
    if (count == most) best.push_back(fmt::format("'{}'", printable(prefix)));
  const std::string first = best.front().substr(1, best.front().size() - 2);
  return fmt::format(", but {} names fit without the prefix {} (FILE#{} takes those)", most,
                     best.size() == 1 ? best.front() : "that is one of " + listed(best), first);
}

}  // namespace troupe
