#pragma once
#include <cstdint>

namespace troupe {

/// Counts of the messages that a coordinator or member has received and sent.
struct ControlCounters {
  std::uint64_t frames = 0;      ///< received, including all counted below and heartbeats
  std::uint64_t delivered = 0;   ///< numbered messages accepted in order
  std::uint64_t duplicates = 0;  ///< dropped: received before
  std::uint64_t early = 0;       ///< dropped: an earlier one was lost and is sent again
  std::uint64_t resent = 0;      ///< sent again because a connection had lost them
  std::uint64_t malformed = 0;   ///< dropped: not a control message
  std::uint64_t foreign = 0;     ///< dropped: of another run, version or session
  std::uint64_t stale = 0;       ///< dropped: of another generation
  std::uint64_t sent = 0;        ///< frames handed to ZeroMQ, for this process and all others
};

}  // namespace troupe
