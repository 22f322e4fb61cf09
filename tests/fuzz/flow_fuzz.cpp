// A run's messages between its processes: whatever the bytes, a message or an Error{bad_message};
// and what is let through says the same again when it is encoded.

#include <cstdlib>

#include "runtime/flow/payload.h"
#include "runtime/remote/flow_wire.h"

namespace {

using namespace troupe;
using namespace troupe::remote;

struct Sample {
  Tensor tensor;
  std::vector<std::string> names;
  std::int64_t count = 0;
  static void members(auto& self, auto& visit) {
    visit(self.tensor);
    visit(self.names);
    visit(self.count);
  }
};

// The parts of a packet are what a type is made of, or are refused.
void put_together(const PacketOnWire& packet) {
  static const PayloadCodec codec = payload_codec<Sample>();
  Parts parts{.numbers = packet.numbers, .texts = packet.texts};
  parts.tensors.resize(packet.tensors.size());
  (void)codec.put_together(std::move(parts));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const FlowMessage message = decode({reinterpret_cast<const char*>(data), size});
    const std::string again =
        std::visit([](const auto& content) { return encode(content); }, message);
    if (decode(again).index() != message.index()) std::abort();
    if (const auto* packet = std::get_if<PacketOnWire>(&message)) put_together(*packet);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_message) std::abort();
  }
  return 0;
}
