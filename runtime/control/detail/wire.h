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
constexpr std::uint32_t wire_version = 4;
constexpr std::size_t max_message_bytes = std::size_t{64} << 20;
constexpr std::size_t max_frame_bytes = max_message_bytes + 4096;

/// What an envelope carries of a run's name.
std::uint64_t run_tag(std::string_view run);

/// Every envelope that makes sense by itself; nothing for all other bytes. Older and newer versions
/// are decoded as far as they are known.
std::optional<wire::Envelope> decode(std::string_view frame);

std::string encode(const wire::Envelope& envelope);

/// The mistake that a refusal tells a person about.
Error error_of(const wire::Refused& refused);

}  // namespace troupe::control
