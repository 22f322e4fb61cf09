#pragma once
#include <filesystem>
#include <string_view>

namespace troupe {

/// The folder of a data set that is downloaded, where its reader looks if no path is given: NAME in
/// the folder of the environment's TROUPE_DATA, else in `troupe` in XDG_DATA_HOME, else in
/// ~/.local/share/troupe. Empty if HOME is missing as well.
std::filesystem::path dataset_folder(std::string_view name);

}  // namespace troupe
