#include "runtime/remote/flow_wire.h"

#include <fmt/format.h>

namespace troupe::remote {
namespace {

enum class Kind : std::uint8_t { packet, credit, run_message };
constexpr Kind last_enumerator(Kind) { return Kind::run_message; }

/// Most messages are shorter.
constexpr std::size_t usual_bytes = 256;

WireWriter begin(Kind kind) {
  WireWriter writer;
  writer.bytes.reserve(usual_bytes);
  writer(kind);
  return writer;
}

template <class Message>
std::string encode_as(Kind kind, const Message& message) {
  WireWriter writer = begin(kind);
  writer(message);
  return std::move(writer.bytes);
}

IncomingPacket read_packet(WireReader& reader, const Graph& graph) {
  IncomingPacket incoming;
  reader(incoming.packet.header);
  const std::uint32_t edge = incoming.packet.header.edge;
  if (edge >= graph.edges().size() || !graph.edges()[edge].codec)
    throw Error(
        ErrorCode::bad_message,
        fmt::format("received a message on edge {}, which does not connect processes", edge),
        "start all processes from the same program with the same arguments");
  incoming.packet.payload = graph.edges()[edge].codec.read(reader);
  incoming.tensors = reader.take_tensors();
  return incoming;
}

template <class Message>
Message read_message(WireReader& reader) {
  Message message;
  reader(message);
  return message;
}

IncomingMessage read(WireReader& reader, const Graph& graph) {
  Kind kind{};
  reader(kind);
  switch (kind) {
    case Kind::packet:
      return read_packet(reader, graph);
    case Kind::credit:
      return read_message<Credit>(reader);
    case Kind::run_message:
      break;
  }
  return read_message<RunMessage>(reader);
}

}  // namespace

WireWriter encode(const Packet& packet, const Graph& graph) {
  WireWriter writer = begin(Kind::packet);
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
  return writer;
}

std::string encode(const Credit& credit) { return encode_as(Kind::credit, credit); }

std::string encode(const RunMessage& message) { return encode_as(Kind::run_message, message); }

IncomingMessage decode(std::string_view bytes, const Graph& graph) {
  WireReader reader(bytes);
  IncomingMessage message = read(reader, graph);
  reader.check_end();
  return message;
}

}  // namespace troupe::remote
