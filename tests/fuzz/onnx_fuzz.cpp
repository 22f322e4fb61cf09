// ONNX models: whatever the bytes, a graph whose weights can be read or an Error.

#include <vector>

#include "ops/graph/onnx.h"
#include "runtime/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const troupe::graph::Graph graph =
        troupe::graph::parse_onnx(std::as_bytes(std::span(data, size)), "input", "/nowhere");
    for (const troupe::TensorInfo& info : graph.weights.tensors) {
      const troupe::Tensor tensor = graph.weights.read(info.name);
      if (tensor.shape() != info.shape) __builtin_trap();
    }
    for (const troupe::graph::Node& node : graph.nodes)
      for (const troupe::graph::ValueId id : node.inputs)
        if (id.index >= static_cast<int>(graph.values.size())) __builtin_trap();
  } catch (const troupe::Error&) {
  }
  return 0;
}
