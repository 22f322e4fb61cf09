#include "actors/data/dataset_folder.h"

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

}  // namespace troupe
