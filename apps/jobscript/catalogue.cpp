// Where profiles are found.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "apps/jobscript/profile.h"
#include "runtime/error.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The files of all folders by cluster name; of equal names the one that comes first.
std::map<std::string, fs::path> files_by_name() {
  std::map<std::string, fs::path> files;
  for (const fs::path& folder : profile_folders()) {
    std::error_code absent;
    for (const auto& entry : fs::directory_iterator(folder, absent))
      if (entry.path().extension() == ".yaml")
        files.emplace(entry.path().stem().string(), entry.path());
  }
  return files;
}

}  // namespace

std::vector<fs::path> profile_folders() {
  std::vector<fs::path> folders;
  std::string own = variable("TROUPE_CLUSTER_PATH");
  while (!own.empty()) {
    const std::size_t colon = own.find(':');
    if (colon != 0) folders.emplace_back(own.substr(0, colon));
    own = colon == std::string::npos ? "" : own.substr(colon + 1);
  }
  const std::string config = variable("XDG_CONFIG_HOME"), home = variable("HOME");
  if (!config.empty())
    folders.push_back(fs::path(config) / "troupe/clusters");
  else if (!home.empty())
    folders.push_back(fs::path(home) / ".config/troupe/clusters");
  std::error_code hidden;
  const fs::path program = fs::read_symlink("/proc/self/exe", hidden);
  if (!hidden) folders.push_back(program.parent_path().parent_path() / "share/troupe/clusters");
  return folders;
}

std::vector<fs::path> all_profiles() {
  std::vector<fs::path> paths;
  for (auto& [name, file] : files_by_name()) paths.push_back(file);
  if (!paths.empty()) return paths;
  std::vector<std::string> folders;
  for (const auto& folder : profile_folders()) folders.push_back(folder.string());
  throw Error(ErrorCode::usage,
              fmt::format("there is no cluster profile in {}", listed(folders, folders.size())),
              "set TROUPE_CLUSTER_PATH to the folder with the profiles");
}

fs::path profile_file(const std::string& name) {
  const auto files = files_by_name();
  if (const auto found = files.find(name); found != files.end()) return found->second;
  std::vector<std::string> known;
  for (const fs::path& file : all_profiles()) known.push_back(file.stem().string());
  const std::vector<std::string_view> names(known.begin(), known.end());
  const std::string near = meant(name, names);
  throw Error(
      ErrorCode::usage, fmt::format("there is no cluster {}", name.substr(0, 100)),
      fmt::format("{}`{} jobscript --list` shows all; docs/clusters.md shows how to add one",
                  near.empty() ? "" : fmt::format("did you mean {}? ", near), program_name()));
}

ClusterProfile find_profile(const std::string& name_or_path) {
  const bool is_path =
      name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".yaml");
  if (is_path && !fs::exists(name_or_path))
    throw Error(ErrorCode::usage,
                fmt::format("there is no profile {}", name_or_path.substr(0, 200)),
                "check the path, or give the name of a known cluster");
  return read_profile(is_path ? fs::path(name_or_path) : profile_file(name_or_path));
}

}  // namespace troupe
