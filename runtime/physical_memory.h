#pragma once
#include <unistd.h>

#include <cstdint>

namespace troupe {

/// The memory of this host in bytes: what no array in memory can exceed.
inline std::uint64_t physical_memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page_bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes)
             : UINT64_MAX;
}

}  // namespace troupe
