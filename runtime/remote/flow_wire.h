#pragma once
// Internal to the runtime: messages for other processes as bytes, and back. The elements of a
// packet's tensors travel separately, over a transport, with the number of the edge as their tag.
// The tensors of an edge arrive in the order of sending.

#include <string_view>
#include <vector>

#include "runtime/flow/bridge.h"
#include "runtime/flow/wire.h"

namespace troupe::remote {

/// A message as bytes, and the tensors that travel beside them. Throws Error{bad_graph} for a
/// packet with a tensor that is not on the device of its edge.
WireWriter encode(const BridgeMessage& message, const Graph& graph);

/// A decoded message. Its tensors may still be on their way.
struct Incoming {
  BridgeMessage message;
  std::vector<WireReader::ExpectedTensor> tensors;  ///< places in the payload of a packet
};

/// Throws Error{bad_message} for bytes that are no valid message, and for packets on an edge that
/// does not exist in `graph` or whose messages cannot leave their process.
Incoming decode(std::string_view bytes, const Graph& graph);

}  // namespace troupe::remote
