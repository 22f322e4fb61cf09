#include "ops/graph/read_graph.h"

#include <fmt/format.h>

#include "ops/graph/pt2.h"
#include "ops/graph/pt2_file.h"
#include "runtime/error.h"
#include "runtime/file/file.h"

namespace troupe::graph {

Graph read_graph(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path))
    throw Error(ErrorCode::bad_file, fmt::format("'{}' is a folder", path.string()), export_line);
  const auto file = MappedFile::open(path);
  const std::string_view begin(reinterpret_cast<const char*>(file->bytes().data()),
                               std::min<std::size_t>(4, file->bytes().size()));
  if (begin == "PK\x03\x04") return read_pt2(path);
  throw Error(ErrorCode::bad_file,
              fmt::format("'{}' is no model that PyTorch has exported", path.string()),
              export_line);
}

}  // namespace troupe::graph
