#pragma once
// Internal to the runtime: messages for actors of other processes as bytes, and back.

#include <atomic>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/flow/bridge.h"
#include "runtime/flow/wire.h"

namespace troupe::remote {

/// A packet on its way to another process: its bytes, and the tensors that travel beside them under
/// consecutive tags.
struct OutgoingPacket {
  std::string bytes;
  std::vector<Tensor> tensors;
  std::uint64_t first_tag = 0;
};

/// A packet that lacks the elements of its tensors.
struct IncomingPacket {
  RemotePacket remote;
  std::vector<WireReader::ExpectedTensor> tensors;  ///< places in the payload
  std::uint64_t first_tag = 0;
};

using IncomingMessage = std::variant<IncomingPacket, RemoteCredit, RunMessage>;

/// Takes as many tags from `next_tag`, the counter of one receiver, as tensors travel.
OutgoingPacket encode(const RemotePacket& remote, const Graph& graph,
                      std::atomic<std::uint64_t>& next_tag);
std::string encode(const RemoteCredit& credit);
std::string encode(const RunMessage& message);

/// Throws Error{bad_message} for all bytes that encode() did not make, and for packets on an edge
/// that does not exist in `graph` or whose messages cannot leave their process.
IncomingMessage decode(std::string_view bytes, const Graph& graph);

}  // namespace troupe::remote
