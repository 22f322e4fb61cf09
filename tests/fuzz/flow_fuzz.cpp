// A run's messages between its processes: any bytes are a message or an Error{bad_message}, and a
// message that was decoded is the same after it is encoded and decoded again.

#include <cstdlib>

#include "runtime/remote/flow_wire.h"
#include "tests/fuzz/flow_graph.h"

namespace {

using namespace troupe;
using namespace troupe::remote;

/// Whether all tensors of the message are here now: those that are not too large.
bool complete(Incoming& incoming) {
  for (const auto& tensor : incoming.tensors) {
    if (tensor.meta.bytes() > 1 << 20) return false;
    *tensor.place =
        Tensor::empty(tensor.meta.shape, tensor.meta.dtype, Device::cpu(), tensor.meta.layout);
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Graph graph = fuzzed_graph();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    Incoming incoming = decode(bytes, graph);
    if (complete(incoming) && encode(incoming.message, graph).bytes != bytes) std::abort();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_message) std::abort();
  }
  return 0;
}
