#include "ops/graph/read_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/graph/onnx.h"
#include "ops/graph/pt2.h"
#include "ops/graph/pt2_file.h"
#include "runtime/error.h"
#include "runtime/file/file.h"
#include "runtime/file/torch_file.h"
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
  const auto file = MappedFile::open(path);
  if (!is_zip(*file)) return looks_like_onnx(file->bytes());
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
    throw Error(ErrorCode::bad_file, fmt::format("'{}' is a folder", path.string()),
                torch_export_line);
  const auto file = MappedFile::open(path);
  if (file->bytes().empty())
    throw Error(ErrorCode::bad_file, fmt::format("'{}' is an empty file", path.string()),
                torch_export_line);
  if (is_zip(*file)) return read_pt2(path);
  if (looks_like_onnx(file->bytes())) return read_onnx(path);
  if (is_legacy_torch_file(file->bytes()))
    throw Error(ErrorCode::bad_file,
                fmt::format("'{}' is a file from PyTorch before 1.6: a pickle of weights, not an "
                            "exported model",
                            path.string()),
                fmt::format("convert it and set `Model::weights` to the result: {}",
                            legacy_conversion(path.string())));
  throw Error(ErrorCode::bad_file, fmt::format("'{}' is not an exported model", path.string()),
              torch_export_line);
}

}  // namespace troupe::graph
