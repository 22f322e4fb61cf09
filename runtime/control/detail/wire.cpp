#include "runtime/control/detail/wire.h"

#include <openssl/sha.h>

#include <array>

namespace troupe::control {
namespace {

/// Sequence numbers belong to bodies that must arrive, and to no others.
bool numbering_fits(const wire::Envelope& envelope) {
  switch (envelope.body_case()) {
    case wire::Envelope::BODY_NOT_SET:
      return false;
    case wire::Envelope::kRefused:
    case wire::Envelope::kPulse:
    case wire::Envelope::kEcho:
      return envelope.sequence() == 0;
    default:
      return envelope.sequence() != 0;
  }
}

bool lists_fit(const wire::Welcome& welcome) {
  const int size = welcome.host_size();
  if (size == 0 || welcome.port_size() != size || welcome.pid_size() != size ||
      welcome.session_size() != size || welcome.rank() >= static_cast<std::uint32_t>(size))
    return false;
  for (const std::uint32_t host : welcome.host())
    if (host >= static_cast<std::uint32_t>(welcome.hosts_size())) return false;
  for (const std::uint32_t port : welcome.port())
    if (port > 65535) return false;
  return true;
}

}  // namespace

std::uint64_t run_tag(std::string_view run) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(run.data()), run.size(), digest.data());
  std::uint64_t tag = 0;
  for (int byte = 0; byte < 8; ++byte) tag = tag << 8 | digest[static_cast<std::size_t>(byte)];
  return tag;
}

std::optional<wire::Envelope> decode(std::string_view frame) {
  if (frame.size() > max_frame_bytes) return std::nullopt;
  wire::Envelope envelope;
  if (!envelope.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) return std::nullopt;
  if (envelope.version() == 0) return std::nullopt;
  if (envelope.version() != wire_version) return envelope;
  if (!numbering_fits(envelope)) return std::nullopt;
  if (envelope.has_welcome() && !lists_fit(envelope.welcome())) return std::nullopt;
  if (envelope.has_join() && envelope.join().port() > 65535) return std::nullopt;
  return envelope;
}

std::string encode(const wire::Envelope& envelope) { return envelope.SerializeAsString(); }

Error error_of(const wire::Refused& refused) {
  const bool is_lost = refused.reason() == wire::Refused::LOST || refused.reported();
  const ErrorCode code = is_lost                                      ? ErrorCode::peer_lost
                         : refused.reason() == wire::Refused::TIMEOUT ? ErrorCode::timed_out
                                                                      : ErrorCode::refused;
  return Error(code, refused.message(), refused.remedy());
}

}  // namespace troupe::control
