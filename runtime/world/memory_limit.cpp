#include "runtime/world/memory_limit.h"

#include <unistd.h>

#include <charconv>
#include <fstream>
#include <optional>
#include <string>

#include "runtime/world/control_groups.h"

namespace troupe {
namespace {

/// Empty for all but a whole number from 1.
std::optional<std::uint64_t> positive(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0) return std::nullopt;
  return value;
}

std::uint64_t physical_memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page_bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes)
             : UINT64_MAX;
}

}  // namespace

MemoryLimit memory_limit(const Environment& environment, const std::filesystem::path& groups,
                         const std::filesystem::path& own) {
  MemoryLimit limit{.bytes = physical_memory_bytes()};
  const auto take = [&](std::optional<std::uint64_t> bytes) {
    if (bytes && *bytes < limit.bytes) limit = {*bytes, "this job"};
  };
  for (const ControlGroup& group : control_groups("memory", groups, own)) {
    std::ifstream file(group.folder /
                       (group.version == 2 ? "memory.max" : "memory.limit_in_bytes"));
    if (std::string text; file >> text) take(positive(text));  // or "max"
  }
  // In MiB; 0 is all memory of the node.
  if (const auto mebibytes = positive(environment.get("SLURM_MEM_PER_NODE").value_or("")))
    if (*mebibytes <= UINT64_MAX >> 20) take(*mebibytes << 20);
  return limit;
}

}  // namespace troupe
