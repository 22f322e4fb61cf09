#pragma once
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace troupe {

/// For each chain of modules that names begin with, such as "module." or "net.backbone.", how many
/// of the names are `wanted` without it. Chains of at most eight modules. The keys view `names`.
std::map<std::string_view, std::size_t> fitting_prefixes(
    const std::vector<std::string_view>& names, const std::unordered_set<std::string_view>& wanted);

/// For an error about a file's names: ", but 14 names fit without the prefix 'backbone.'
/// (FILE#backbone. takes those)"; empty if fewer than two names fit without any.
std::string prefix_hint(const std::vector<std::string_view>& names,
                        const std::unordered_set<std::string_view>& wanted);

}  // namespace troupe
