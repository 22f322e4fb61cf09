#include "ops/graph/onnx.h"

#include "ops/graph/onnx_file.h"
#include "ops/graph/onnx_import.h"

namespace troupe::graph {

Graph read_onnx(const std::filesystem::path& path) {
  const onnx::File file = onnx::open_file(path);
  return onnx::Import(file).run();
}

Graph parse_onnx(std::span<const std::byte> bytes, const std::string& origin,
                 const std::filesystem::path& folder) {
  const onnx::File file = onnx::parse_file(bytes, origin, folder);
  return onnx::Import(file).run();
}

bool looks_like_onnx(std::span<const std::byte> bytes) { return onnx::begins_as_model(bytes); }

}  // namespace troupe::graph
