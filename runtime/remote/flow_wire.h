#pragma once
// Inside the runtime: a run's messages as bytes, and back.

#include <string>
#include <variant>

#include "runtime/flow/bridge.h"
#include "runtime/transport/tensor_meta.h"

namespace troupe::remote {

/// A packet without its tensors' bytes.
struct PacketOnWire {
  std::uint32_t actor = 0;
  std::uint32_t incarnation = 0;  ///< which life of the receiver is meant
  Header header;
  /// One a tensor of the message; nothing for an undefined one, which does not travel.
  std::vector<std::optional<TensorMeta>> tensors;
  std::vector<std::uint64_t> numbers;
  std::vector<std::string> texts;
  std::uint64_t tag = 0;  ///< of the first tensor that travels; the next ones follow
};

using FlowMessage = std::variant<PacketOnWire, RemoteCredit, RunMessage>;

std::string encode(const PacketOnWire& packet);
std::string encode(const RemoteCredit& credit);
std::string encode(const RunMessage& note);

/// Throws Error{bad_message} that says what does not fit, for any bytes that encode() did not make.
FlowMessage decode(const std::string& bytes);

}  // namespace troupe::remote
