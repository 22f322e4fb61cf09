#include "actors/data/dataset_folder.h"

#include <fmt/format.h>

#include <cstdlib>

namespace troupe {
namespace {

std::filesystem::path folder_in(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

}  // namespace

std::filesystem::path dataset_folder(std::string_view name) {
  if (const auto data = folder_in("TROUPE_DATA"); !data.empty()) return data / name;
  // The XDG specification: relative paths are invalid and ignored.
  if (const auto data = folder_in("XDG_DATA_HOME"); data.is_absolute())
    return data / "troupe" / name;
  const auto home = folder_in("HOME");
  return home.empty() ? home : home / ".local/share/troupe" / name;
}

std::string fetch_into(std::string_view name, const std::filesystem::path& path) {
  if (path.empty()) return fmt::format("`fetch {}`", name);
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(path, ignored);
  const std::filesystem::path folder = is_file ? path.parent_path() : path;
  return fmt::format("`fetch {} {}`", name, folder.empty() ? "." : folder.string());
}

}  // namespace troupe
