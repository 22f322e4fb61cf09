#include "runtime/file/zarr.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "runtime/error.h"
#include "runtime/file/file.h"
#include "runtime/file/zarr_metadata.h"
#include "runtime/text.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using zarr::fail;
using zarr::Metadata;

constexpr const char* file_of_format_2 = ".zarray";
constexpr const char* file_of_format_3 = "zarr.json";
constexpr const char* group_of_format_2 = ".zgroup";
/// Attributes of users are in the same file.
constexpr std::uint64_t most_metadata_bytes = std::uint64_t{1} << 24;

bool has_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_array_or_group(const fs::path& folder) {
  return has_file(folder / file_of_format_3) || has_file(folder / file_of_format_2) ||
         has_file(folder / group_of_format_2);
}

/// Whether a name has only parts that lead down.
bool leads_down(const std::string& name) {
  if (name.empty() || name.find('\0') != name.npos) return false;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = std::string_view(name).substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

std::string origin_of(const fs::path& folder, const std::string& name) {
  return fmt::format("{} in {}", printable(name), folder.string());
}

std::vector<std::byte> read_whole(const InputFile& file) {
  std::vector<std::byte> bytes(file.size());
  file.read_at(0, bytes);
  return bytes;
}

Metadata read_metadata(const fs::path& folder, const std::string& name) {
  const std::string origin = origin_of(folder, name);
  if (!leads_down(name) || !is_array_or_group(folder / name))
    fail(origin, "it does not exist", "give the name of an array");
  const bool newest = has_file(folder / name / file_of_format_3);
  if (!newest && !has_file(folder / name / file_of_format_2)) zarr::fail_as_group(origin);
  const InputFile file =
      InputFile::open(folder / name / (newest ? file_of_format_3 : file_of_format_2));
  if (file.size() > most_metadata_bytes)
    fail(origin, fmt::format("its metadata have {} bytes", file.size()),
         fmt::format("at most {} are read: write it again with fewer attributes",
                     most_metadata_bytes));
  const std::vector<std::byte> bytes = read_whole(file);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return newest ? zarr::parse_format_3(text, origin) : zarr::parse_format_2(text, origin);
}

std::vector<std::byte> filled(const Metadata& metadata) {
  std::vector<std::byte> chunk(metadata.chunk_bytes());
  for (std::size_t i = 0; i < chunk.size(); i += metadata.fill.size())
    std::ranges::copy(metadata.fill, chunk.begin() + static_cast<std::ptrdiff_t>(i));
  return chunk;
}

/// Whether no file is there: `key` leads down from a folder. A link to nothing is not missing: its
/// chunk has not been fetched, as in clones of git-annex and DVC, and open() names it.
bool is_missing(fs::path path, const fs::path& key) {
  std::error_code ignored;
  for (const fs::path& part : key) {
    path /= part;
    if (fs::status(path, ignored).type() != fs::file_type::not_found) continue;
    return fs::symlink_status(path, ignored).type() == fs::file_type::not_found;
  }
  return false;
}

std::vector<std::byte> read_chunk(const fs::path& folder, const Metadata& metadata,
                                  const ChunkedArray::Place& first, const std::string& origin) {
  const std::string key = metadata.key(first);
  // Any other problem than a missing file is an error of open().
  if (is_missing(folder, key)) return filled(metadata);
  const InputFile file = InputFile::open(folder / key);
  const std::string chunk = fmt::format("chunk {} of {}", key, origin);
  if (file.size() > zarr::most_stored_bytes(metadata.chunk_bytes(), metadata.codecs.size()))
    fail(chunk,
         fmt::format("{} bytes are stored in a file of {}", metadata.chunk_bytes(), file.size()));
  return zarr::decoded(read_whole(file), metadata.codecs, metadata.chunk_bytes(), chunk);
}

std::shared_ptr<const ChunkedArray> open_chunks(const fs::path& folder, const std::string& name,
                                                const Metadata& metadata) {
  if (metadata.shape.element_count() == 0) return nullptr;
  return std::make_shared<ChunkedArray>(
      metadata,
      [array = folder / name, metadata, origin = origin_of(folder, name)](
          const ChunkedArray::Place& first) { return read_chunk(array, metadata, first, origin); });
}

/// Calls `visit` for each entry of a folder until it returns false. Throws Error{io}.
template <class F>
void for_each_entry(const fs::path& folder, F visit) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (!visit(entry->path())) return;
  if (error) throw system_error("reading", folder, error.value());
}

/// Whether a chunk has a file in the folder `below` an array's folder, or further below: as deep as
/// keys are. A link counts, wherever it leads: the walk follows none, so it ends.
bool has_chunks(const fs::path& array, const Metadata& metadata, const fs::path& below = {}) {
  bool found = false;
  for_each_entry(array / below, [&](const fs::path& entry) {
    const fs::path key = below / entry.filename();
    const Metadata::Named named = metadata.named_by(key.string());
    if (named == Metadata::Named::nothing) return true;
    std::error_code ignored;
    const fs::file_type type = fs::symlink_status(entry, ignored).type();
    if (type == fs::file_type::directory)
      found = named == Metadata::Named::folder_of_chunks && has_chunks(array, metadata, key);
    else
      found = type == fs::file_type::symlink || named == Metadata::Named::chunk;
    return !found;
  });
  return found;
}

}  // namespace

ZarrFolder::ZarrFolder(fs::path path) : path_(std::move(path)) {
  if (!names().empty() || has_file(path_ / group_of_format_2)) return;
  if (is_array_or_group(path_))
    throw Error(ErrorCode::bad_file,
                fmt::format("{} has no zarr arrays in it, or is one itself", path_.string()),
                "give the folder above the arrays");
  throw Error(ErrorCode::bad_file, fmt::format("{} has no zarr arrays in it", path_.string()),
              "give the folder of a zarr group of format 2 or 3");
}

std::vector<std::string> ZarrFolder::names() const {
  constexpr std::size_t most = 100;
  std::vector<std::string> names;
  for_each_entry(path_, [&](const fs::path& entry) {
    if (is_array_or_group(entry)) names.push_back(printable(entry.filename().string()));
    return names.size() < most;
  });
  std::ranges::sort(names);
  return names;
}

bool ZarrFolder::contains(const std::string& name) const {
  return leads_down(name) && is_array_or_group(path_ / name);
}

TensorInfo ZarrFolder::header(const std::string& name) const {
  const Metadata metadata = read_metadata(path_, name);
  return {name, metadata.dtype, metadata.shape};
}

Tensor ZarrFolder::read(const std::string& name) const {
  if (const auto chunks = open_chunks(path_, name, read_metadata(path_, name)))
    return chunks->read_all(zarr::title(origin_of(path_, name)));
  const TensorInfo info = header(name);
  return Tensor::empty(info.shape, info.dtype, Device::cpu());
}

std::shared_ptr<const ChunkedArray> ZarrFolder::chunked(const std::string& name) const {
  const Metadata metadata = read_metadata(path_, name);
  auto chunks = open_chunks(path_, name, metadata);
  if (chunks && !has_chunks(path_ / name, metadata))
    fail(origin_of(path_, name), "no file of its chunks is there",
         "copy all of the array's folder; an array of its fill value alone trains nothing");
  return chunks;
}

}  // namespace troupe
