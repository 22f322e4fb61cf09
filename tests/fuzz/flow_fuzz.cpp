// A run's messages between its processes: any bytes are a message or an Error{bad_message}, and a
// message that was decoded is the same after it is encoded and decoded again.

#include <cstdlib>

#include "runtime/remote/flow_wire.h"
#include "tests/fuzz/flow_graph.h"

namespace {

using namespace troupe;
using namespace troupe::remote;

void check(const IncomingPacket& packet, std::string_view bytes, const Graph& graph) {
  for (const auto& tensor : packet.tensors) {
    if (tensor.meta.bytes() > 1 << 20) return;
    *tensor.place =
        Tensor::empty(tensor.meta.shape, tensor.meta.dtype, Device::cpu(), tensor.meta.layout);
  }
  if (encode(packet.packet, graph).bytes != bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Graph graph = fuzzed_graph();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const IncomingMessage message = decode(bytes, graph);
    if (const auto* packet = std::get_if<IncomingPacket>(&message))
      check(*packet, bytes, graph);
    else if (const auto* credit = std::get_if<Credit>(&message)) {
      if (encode(*credit) != bytes) std::abort();
    } else if (encode(std::get<RunMessage>(message)) != bytes) {
      std::abort();
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_message) std::abort();
  }
  return 0;
}
