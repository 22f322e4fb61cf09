#include "actors/data/image_files.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "runtime/file/file.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr std::array read_endings{".jpg", ".jpeg", ".png"};
// torchvision reads these as well, so leaving them out would renumber the samples.
constexpr std::array refused_endings{".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};

bool is_among(const auto& endings, const std::string& ending) {
  return std::ranges::any_of(
      endings, [&](const char* one) { return ::strcasecmp(one, ending.c_str()) == 0; });
}

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

Error unreadable(const fs::path& folder, const std::error_code& error) {
  return Error(ErrorCode::io, fmt::format("cannot list {}: {}", folder.string(), error.message()),
               "check the folder and its permissions");
}

/// Throws if a link leads back to a folder that it lies in: `real` are those of the iterator's
/// depth and above, without links. Appends the folder's own.
void enter(const fs::path& folder, bool is_link, std::vector<fs::path>& real) {
  const fs::path entered = is_link ? fs::canonical(folder) : real.back() / folder.filename();
  if (std::ranges::find(real, entered) != real.end())
    throw Error(ErrorCode::bad_file,
                fmt::format("{} leads back to {}", folder.string(), entered.string()),
                "remove the link");
  real.push_back(entered);
}

/// Adds the images below `folder`/`name`, by folder and then by name.
void add_class(const fs::path& folder, const std::string& name, std::vector<std::string>& files) {
  std::error_code error;
  std::vector<std::pair<std::string, std::string>> found;  // folder, name
  fs::recursive_directory_iterator entry(folder / name,
                                         fs::directory_options::follow_directory_symlink, error);
  std::vector<fs::path> real{fs::weakly_canonical(folder / name)};
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const fs::path& path = entry->path();
    if (std::error_code ignored; entry->is_directory(ignored)) {
      real.resize(static_cast<std::size_t>(entry.depth()) + 1);
      if (is_hidden(path))
        entry.disable_recursion_pending();
      else
        enter(path, entry->is_symlink(), real);
      continue;
    }
    if (is_hidden(path)) continue;
    const std::string ending = path.extension().string();
    if (is_among(refused_endings, ending))
      throw Error(ErrorCode::bad_file, fmt::format("{} is neither JPEG nor PNG", path.string()),
                  "convert it, or move it out of the data set");
    if (is_among(read_endings, ending))
      found.emplace_back(path.parent_path().lexically_relative(folder).string(),
                         path.filename().string());
  }
  if (error) throw unreadable(folder / name, error);
  if (found.empty())
    throw Error(ErrorCode::bad_file,
                fmt::format("{} has no .jpg, .jpeg or .png file", (folder / name).string()),
                "add images of the class, or remove its folder");
  std::ranges::sort(found);
  for (const auto& [below, file] : found) files.push_back(fmt::format("{}/{}", below, file));
}

}  // namespace

std::vector<std::string> class_names(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    if (std::error_code ignored; !is_hidden(entry->path()) && entry->is_directory(ignored))
      names.push_back(entry->path().filename().string());
  if (error) throw unreadable(folder, error);
  std::ranges::sort(names);
  return names;
}

std::int64_t ImageFiles::class_of(std::int64_t file) const {
  return std::ranges::upper_bound(first_file, file) - first_file.begin() - 1;
}

ImageFiles chosen_files(const ImageFiles& all, const std::vector<std::uint32_t>& numbers) {
  ImageFiles chosen{.folder = all.folder, .classes = all.classes};
  for (const std::int64_t first : all.first_file)
    chosen.first_file.push_back(std::ranges::lower_bound(numbers, first) - numbers.begin());
  for (const std::uint32_t number : numbers) chosen.files.push_back(all.files[number]);
  return chosen;
}

ImageFiles list_image_files(const fs::path& folder) {
  ImageFiles list{.folder = folder, .classes = class_names(folder)};
  if (list.classes.empty())
    throw Error(ErrorCode::bad_file, fmt::format("{} has no folder of a class", folder.string()),
                "put the images of each class into a folder with its name");
  for (const std::string& name : list.classes) {
    list.first_file.push_back(std::ssize(list.files));
    add_class(folder, name, list.files);
  }
  list.first_file.push_back(std::ssize(list.files));
  return list;
}

}  // namespace troupe
