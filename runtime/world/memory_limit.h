#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "runtime/world/environment.h"

namespace troupe {

/// What no array in memory can exceed.
struct MemoryLimit {
  std::uint64_t bytes = UINT64_MAX;
  std::string_view holder = "this host";  ///< for errors: or "this job"
};

/// The least of the memory of this host, the limits of the process's control groups (memory.max of
/// version 2, memory.limit_in_bytes of version 1) and SLURM_MEM_PER_NODE. Limits that are not set
/// or cannot be read do not count.
MemoryLimit memory_limit(const Environment& environment = Environment::of_process(),
                         const std::filesystem::path& groups = "/sys/fs/cgroup",
                         const std::filesystem::path& own = "/proc/self/cgroup");

}  // namespace troupe
