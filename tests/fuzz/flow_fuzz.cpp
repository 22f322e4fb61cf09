// A run's messages between its processes: any bytes are a message or an Error{bad_message}, and a
// message that was decoded is the same after it is encoded and decoded again.

#include <cstdlib>

#include "runtime/remote/flow_wire.h"

namespace {

using namespace troupe;
using namespace troupe::remote;

struct Sample {
  Tensor tensor;
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  std::int64_t count = 0;
  static void members(auto& self, auto& visit) {
    visit(self.tensor);
    visit(self.names);
    visit(self.tensors);
    visit(self.count);
  }
};
struct Sender final : Actor {
  Output<Sample> out{this, "out"};
  ActionLabel act() override { return {"send", {}}; }
};
struct Receiver final : Actor {
  Input<Sample> in{this, "in"};
  ActionLabel act() override { return {"receive", {}}; }
};

Graph make_graph() {
  Graph graph;
  graph.connect(graph.add<Sender>("sender"), &Sender::out, graph.add<Receiver>("receiver"),
                &Receiver::in);
  return graph;
}

void check(const IncomingPacket& packet, std::string_view bytes, const Graph& graph) {
  for (const auto& tensor : packet.tensors) {
    if (tensor.meta.bytes() > 1 << 20) return;
    *tensor.place = Tensor::empty(tensor.meta.shape, tensor.meta.dtype, tensor.meta.layout);
  }
  std::atomic<std::uint64_t> tag{packet.first_tag};
  if (encode(packet.remote, graph, tag).bytes != bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Graph graph = make_graph();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const IncomingMessage message = decode(bytes, graph);
    if (const auto* packet = std::get_if<IncomingPacket>(&message))
      check(*packet, bytes, graph);
    else if (const auto* credit = std::get_if<RemoteCredit>(&message)) {
      if (encode(*credit) != bytes) std::abort();
    } else if (encode(std::get<RunMessage>(message)) != bytes) {
      std::abort();
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_message) std::abort();
  }
  return 0;
}
