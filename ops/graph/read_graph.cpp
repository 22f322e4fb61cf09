#include "ops/graph/read_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/graph/pt2.h"
#include "ops/graph/pt2_file.h"
#include "runtime/error.h"
#include "runtime/file/file.h"
#include "runtime/file/zip.h"

namespace troupe::graph {

namespace {

bool is_zip(const MappedFile& file) {
  const std::string_view begin(reinterpret_cast<const char*>(file.bytes().data()),
                               std::min<std::size_t>(4, file.bytes().size()));
  return begin == "PK\x03\x04";
}

}  // namespace

bool holds_graph(const std::filesystem::path& path) {
  if (!is_zip(*MappedFile::open(path))) return false;
  try {
    const ZipArchive archive = ZipArchive::open(path);
    return std::ranges::any_of(archive.members(), [](const ZipMember& member) {
      return member.name.ends_with("models/model.json");
    });
  } catch (const Error&) {
    return false;  // the reader of another kind says why
  }
}

Graph read_graph(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path))
    throw Error(ErrorCode::bad_file, fmt::format("'{}' is a folder", path.string()), export_line);
  if (is_zip(*MappedFile::open(path))) return read_pt2(path);
  throw Error(ErrorCode::bad_file,
              fmt::format("'{}' is no model that PyTorch has exported", path.string()),
              export_line);
}

}  // namespace troupe::graph
