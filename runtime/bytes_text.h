#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <string>

namespace troupe {

/// "512 B", "37.5 MiB", "1.2 GiB": at most nine characters below 1000 GiB.
inline std::string bytes_text(std::size_t bytes) {
  const auto count = static_cast<double>(bytes);
  if (count < 1000) return fmt::format("{} B", bytes);
  if (count < 1000 * 0x1p10) return fmt::format("{:.1f} KiB", count / 0x1p10);
  if (count < 1000 * 0x1p20) return fmt::format("{:.1f} MiB", count / 0x1p20);
  return fmt::format("{:.1f} GiB", count / 0x1p30);
}

}  // namespace troupe
