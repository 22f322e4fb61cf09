#pragma once
// Internal to the runtime: messages for actors of other processes as bytes, and back. The tensors
// of a packet travel beside its bytes, with the number of its edge as their tag: those of an edge
// arrive in the order of sending.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/flow/bridge.h"
#include "runtime/flow/wire.h"

namespace troupe::remote {

/// A packet that lacks the elements of its tensors.
struct IncomingPacket {
  Packet packet;
  std::vector<WireReader::ExpectedTensor> tensors;  ///< places in the payload
};

using IncomingMessage = std::variant<IncomingPacket, Credit, RunMessage>;

/// The packet's bytes, and the tensors that travel beside them.
WireWriter encode(const Packet& packet, const Graph& graph);
std::string encode(const Credit& credit);
std::string encode(const RunMessage& message);

/// Throws Error{bad_message} for all bytes that encode() did not make, and for packets on an edge
/// that does not exist in `graph` or whose messages cannot leave their process.
IncomingMessage decode(std::string_view bytes, const Graph& graph);

}  // namespace troupe::remote
