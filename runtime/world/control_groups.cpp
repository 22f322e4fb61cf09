#include "runtime/world/control_groups.h"

#include <fstream>
#include <string>

namespace troupe {
namespace {

void append_path(std::vector<ControlGroup>& found, int version, std::filesystem::path folder,
                 const std::filesystem::path& group) {
  found.push_back({version, folder});
  for (const auto& part : group.relative_path()) found.push_back({version, folder /= part});
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& groups,
                                         const std::filesystem::path& own) {
  std::vector<ControlGroup> found;
  std::ifstream file(own);
  const std::string name(controller);
  // Lines like "0::/user/job" (version 2) and "4:cpu,cpuacct:/user/job" (version 1).
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) append_path(found, 2, groups, group);
    if (("," + controllers + ",").find("," + name + ",") != std::string::npos)
      append_path(found, 1, groups / name, group);
  }
  return found;
}

}  // namespace troupe
