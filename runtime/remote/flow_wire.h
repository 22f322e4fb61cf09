#pragma once
// Internal to the runtime: messages for actors of other processes as bytes, and back. The tensors
// of a packet travel beside its bytes, with the number of its edge as their tag: those of an edge
// arrive in the order of sending.

#include <string_view>
#include <vector>

#include "runtime/flow/bridge.h"
#include "runtime/flow/wire.h"

namespace troupe::remote {

/// A message as bytes, and the tensors that travel beside them. Throws Error{bad_graph} for a
/// packet with a tensor that is not on the device of its edge.
WireWriter encode(const BridgeMessage& message, const Graph& graph);

/// A message whose tensors have not arrived.
struct Incoming {
  BridgeMessage message;
  std::vector<WireReader::ExpectedTensor> tensors;  ///< places in the payload of a packet
};

/// Throws Error{bad_message} for all bytes that encode() did not make, and for packets on an edge
/// that does not exist in `graph` or whose messages cannot leave their process.
Incoming decode(std::string_view bytes, const Graph& graph);

}  // namespace troupe::remote
