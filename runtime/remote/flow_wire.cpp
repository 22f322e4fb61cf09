#include "runtime/remote/flow_wire.h"

#include <fmt/format.h>

namespace troupe::remote {
namespace {

enum class Kind : std::uint8_t { packet, credit, run_message };
constexpr Kind last_enumerator(Kind) { return Kind::run_message; }

/// Most messages are shorter.
constexpr std::size_t usual_bytes = 256;

template <class Message>
std::string encode_as(Kind kind, const Message& message) {
  WireWriter writer;
  writer.bytes.reserve(usual_bytes);
  writer(kind);
  writer(message);
  return std::move(writer.bytes);
}

IncomingPacket read_packet(WireReader& reader, const Graph& graph) {
  IncomingPacket packet;
  RemotePacket& remote = packet.remote;
  reader(remote.actor);
  reader(remote.incarnation);
  reader(remote.packet.header);
  const std::uint32_t edge = remote.packet.header.edge;
  if (edge >= graph.edges().size() || !graph.edges()[edge].codec)
    throw Error(
        ErrorCode::bad_message,
        fmt::format("a message came on edge {}, which carries none between processes", edge),
        "start all processes from the same program and options");
  remote.packet.payload = graph.edges()[edge].codec.read(reader);
  packet.tensors = reader.take_tensors();
  if (!packet.tensors.empty()) reader(packet.first_tag);
  return packet;
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
      return read_message<RemoteCredit>(reader);
    case Kind::run_message:
      break;
  }
  return read_message<RunMessage>(reader);
}

}  // namespace

OutgoingPacket encode(const RemotePacket& remote, const Graph& graph,
                      std::atomic<std::uint64_t>& next_tag) {
  WireWriter writer;
  writer.bytes.reserve(usual_bytes);
  writer(Kind::packet);
  writer(remote.actor);
  writer(remote.incarnation);
  writer(remote.packet.header);
  graph.edges()[remote.packet.header.edge].codec.write(remote.packet.payload.get(), writer);
  const std::uint64_t first_tag = next_tag.fetch_add(writer.tensors.size());
  if (!writer.tensors.empty()) writer(first_tag);
  return {std::move(writer.bytes), std::move(writer.tensors), first_tag};
}

std::string encode(const RemoteCredit& credit) { return encode_as(Kind::credit, credit); }

std::string encode(const RunMessage& message) { return encode_as(Kind::run_message, message); }

IncomingMessage decode(std::string_view bytes, const Graph& graph) {
  WireReader reader(bytes);
  IncomingMessage message = read(reader, graph);
  reader.check_end();
  return message;
}

}  // namespace troupe::remote
