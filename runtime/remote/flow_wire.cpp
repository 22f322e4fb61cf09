#include "runtime/remote/flow_wire.h"

#include <fmt/format.h>

namespace troupe::remote {
namespace {

/// Most messages are shorter.
constexpr std::size_t usual_bytes = 256;

void write(WireWriter& writer, const Packet& packet, const Graph& graph) {
  writer(packet.header);
  const std::uint32_t edge = packet.header.edge;
  graph.edges()[edge].codec.write(packet.payload.get(), writer);
  const Device device = graph.edges()[edge].options.device;
  for (const Tensor& tensor : writer.tensors)
    if (tensor.device() != device)
      throw Error(ErrorCode::bad_graph,
                  fmt::format("edge {}: a message has a tensor on {}, the edge carries those on {}",
                              graph.edge_name(edge), to_string(tensor.device()), to_string(device)),
                  "copy the tensor there, or connect the ports with that device");
}

void read(WireReader& reader, Packet& packet, const Graph& graph) {
  reader(packet.header);
  const std::uint32_t edge = packet.header.edge;
  if (edge >= graph.edges().size() || !graph.edges()[edge].codec)
    throw Error(
        ErrorCode::bad_message,
        fmt::format("received a message on edge {}, which does not connect processes", edge),
        "start all processes from the same program with the same arguments");
  packet.payload = graph.edges()[edge].codec.read(reader);
}

}  // namespace

WireWriter encode(const BridgeMessage& message, const Graph& graph) {
  WireWriter writer;
  writer.bytes.reserve(usual_bytes);
  writer(static_cast<std::uint8_t>(message.index()));
  if (const auto* packet = std::get_if<Packet>(&message))
    write(writer, *packet, graph);
  else if (const auto* credit = std::get_if<Credit>(&message))
    writer(*credit);
  else
    writer(std::get<RunMessage>(message));
  return writer;
}

Incoming decode(std::string_view bytes, const Graph& graph) {
  WireReader reader(bytes);
  Incoming incoming;
  std::uint8_t kind = 0;
  reader(kind);
  switch (kind) {
    case 0:
      read(reader, incoming.message.emplace<0>(), graph);
      break;
    case 1:
      reader(incoming.message.emplace<1>());
      break;
    case 2:
      reader(incoming.message.emplace<2>());
      break;
    default:
      throw Error(ErrorCode::bad_message, fmt::format("received a message of kind {}", kind),
                  "start all processes from the same program");
  }
  reader.check_end();
  incoming.tensors = reader.take_tensors();
  return incoming;
}

}  // namespace troupe::remote
