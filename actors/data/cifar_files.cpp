#include "actors/data/cifar_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "actors/data/dataset_folder.h"
#include "runtime/error.h"
#include "runtime/file/file.h"
#include "runtime/file/tar.h"
#include "runtime/text.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// More than any file of CIFAR; no member of an archive may be larger.
constexpr std::uint64_t most_bytes = std::uint64_t{256} << 20;

std::string remedy_with(const CifarKind& kind, const std::string& fetch) {
  return fmt::format(
      "run {}, or download https://www.cs.toronto.edu/~kriz/{} and set `Dataset::path` to the "
      "file, or to the folder that contains it",
      fetch, kind.forms.back().archive);
}

std::string remedy_of(const CifarKind& kind, const fs::path& given) {
  return remedy_with(kind, fetch_into(kind.name, given));
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// Where the data are: a folder of a form, or an archive.
struct Place {
  fs::path path;
  const CifarForm* form = nullptr;  ///< null: an archive
};

std::optional<Place> find(const CifarKind& kind, const fs::path& path) {
  if (is_file(path)) return Place{path};
  const auto holds = [](const fs::path& folder, const CifarForm& form) {
    return is_file(folder / form.files.front());
  };
  for (const CifarForm& form : kind.forms)
    if (holds(path, form)) return Place{path, &form};
  for (const CifarForm& form : kind.forms)
    if (holds(path / form.folder, form)) return Place{path / form.folder, &form};
  for (const CifarForm& form : kind.forms)
    if (is_file(path / form.archive)) return Place{path / form.archive};
  return std::nullopt;
}

/// The error for a folder without the data set: what was looked for and what is there. A folder
/// with other content is probably the wrong one, so nothing is to be downloaded into it.
Error not_found(const CifarKind& kind, const fs::path& path, const fs::path& given) {
  std::string wanted;
  for (const CifarForm& form : kind.forms)
    wanted += fmt::format("{}{}, {}/, {}", wanted.empty() ? "" : ", ", form.files.front(),
                          form.folder, form.archive);
  std::vector<std::string> found;
  std::error_code failed;
  for (fs::directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed))
    found.push_back(printable(at->path().filename().string()) +
                    (at->is_directory(failed) ? "/" : ""));
  std::ranges::sort(found);
  return {ErrorCode::io,
          fmt::format("{} holds no {}: looked for {}; found {}", path.string(), kind.name, wanted,
                      found.empty() ? "nothing" : listed(found)),
          found.empty() || given.empty()
              ? remedy_of(kind, given)
              : remedy_with(kind, fetch_into(kind.name, {}) + " and leave out `Dataset::path`")};
}

Place place_of(const CifarKind& kind, const fs::path& given) {
  const fs::path path = given.empty() ? dataset_folder(kind.name) : given;
  if (path.empty())
    throw Error(ErrorCode::io, fmt::format("{} has no `Dataset::path`", kind.name),
                remedy_of(kind, given));
  if (std::error_code ignored; !given.empty() && !fs::exists(path, ignored))
    throw Error(ErrorCode::bad_options,
                fmt::format("`Dataset::path` is {}, which does not exist", path.string()),
                remedy_of(kind, given));
  if (const auto place = find(kind, path)) return *place;
  throw not_found(kind, path, given);
}

void read_folder(const CifarKind& kind, const Place& place, const fs::path& given,
                 const TakeCifarFile& take) {
  for (std::size_t i = 0; i < place.form->files.size(); ++i) {
    const fs::path path = place.path / place.form->files[i];
    if (!is_file(path))
      throw Error(ErrorCode::io, fmt::format("{} does not exist", path.string()),
                  remedy_of(kind, given));
    take(*place.form, i, MappedFile::open(path)->bytes(), path.string());
  }
}

/// A file of a form.
struct FormFile {
  const CifarForm* form;
  std::size_t file;
};

/// The file that a member of an archive is, by its name and folder.
std::optional<FormFile> file_of(const CifarKind& kind, const std::string& member) {
  for (const CifarForm& form : kind.forms)
    for (std::size_t i = 0; i < form.files.size(); ++i) {
      const std::string wanted = fmt::format("{}/{}", form.folder, form.files[i]);
      if (member == wanted || member.ends_with("/" + wanted)) return FormFile{&form, i};
    }
  return std::nullopt;
}

void read_archive(const CifarKind& kind, const fs::path& path, const fs::path& given,
                  const TakeCifarFile& take) {
  const std::string origin = path.string();
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::bad_file, fmt::format("archive {} {}", origin, what),
                remedy_of(kind, given));
  };
  const auto packed = MappedFile::open(path);
  TarReader reader(packed->bytes(), origin, most_bytes);
  const CifarForm* form = nullptr;
  std::vector<bool> seen;
  while (const auto member = reader.next()) {
    const auto found = file_of(kind, member->name);
    if (!found || (form != nullptr && found->form != form)) continue;
    form = found->form;
    seen.resize(form->files.size());
    if (seen[found->file]) fail(fmt::format("holds {} twice", member->name));
    seen[found->file] = true;
    take(*form, found->file, reader.content(), fmt::format("{} in {}", member->name, origin));
  }
  if (form == nullptr) fail(fmt::format("holds no file of {}", kind.name));
  if (const auto missing = std::ranges::find(seen, false); missing != seen.end())
    fail(fmt::format("holds no {}/{}", form->folder,
                     form->files[static_cast<std::size_t>(missing - seen.begin())]));
}

}  // namespace

void read_cifar_files(const CifarKind& kind, const fs::path& path, const TakeCifarFile& take) {
  const Place place = place_of(kind, path);
  if (place.form == nullptr)
    read_archive(kind, place.path, path, take);
  else
    read_folder(kind, place, path, take);
}

}  // namespace troupe
