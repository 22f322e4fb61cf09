#pragma once
#include <filesystem>
#include <string_view>
#include <vector>

namespace troupe {

/// A folder of a control group, whose files state its limits.
struct ControlGroup {
  int version = 2;  ///< of the hierarchy, which determines the names of the files
  std::filesystem::path folder;
};

/// The control groups whose limits apply to the calling process: its own and all above it, from the
/// root, in the hierarchies of version 2 and, for this controller ("cpu", "memory"), of version 1.
/// Folders that do not exist may be among them. `own` has the form of /proc/self/cgroup; empty if
/// it cannot be read.
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& groups,
                                         const std::filesystem::path& own);

}  // namespace troupe
