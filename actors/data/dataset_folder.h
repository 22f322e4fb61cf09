#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace troupe {

/// The folder of a data set that is downloaded, where its reader looks if no path is given: NAME in
/// the folder of the environment's TROUPE_DATA, else in `troupe` in XDG_DATA_HOME, else in
/// ~/.local/share/troupe. Empty if HOME is missing as well.
std::filesystem::path dataset_folder(std::string_view name);

/// For remedies: the download of a data set to where its reader looks if `path` is given, as
/// "`fetch NAME FOLDER`", or without a path "`fetch NAME`". The folder of a path to a file is the
/// one that holds it.
std::string fetch_into(std::string_view name, const std::filesystem::path& path);

}  // namespace troupe
