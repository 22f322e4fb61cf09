#pragma once
// Envelopes to bytes and back.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/control/wire.pb.h"
#include "runtime/error.h"

namespace troupe::control {

/// Changes with the envelope, and with the messages of a run (runtime/flow/wire.h) in its body.
constexpr std::uint32_t wire_version = 5;
constexpr std::size_t max_message_bytes = std::size_t{64} << 20;
constexpr std::size_t max_frame_bytes = max_message_bytes + 4096;

/// The hash of a run's name in an envelope.
std::uint64_t run_tag(std::string_view run);

/// The envelope in a frame; nothing for bytes that are not a valid one. Older and newer versions
/// are decoded as far as they are known.
std::optional<wire::Envelope> decode(std::string_view frame);

std::string encode(const wire::Envelope& envelope);

/// A refusal as an error.
Error error_of(const wire::Refused& refused);

}  // namespace troupe::control
