#pragma once
#include <cstdint>

namespace troupe {

/// What a coordinator or member has received so far and what it made of it.
struct ControlCounters {
  std::uint64_t frames = 0;      ///< received, all that follow and signs of life included
  std::uint64_t delivered = 0;   ///< numbered messages taken in their turn
  std::uint64_t duplicates = 0;  ///< dropped: had come before
  std::uint64_t early = 0;       ///< dropped: one before it was lost and comes again
  std::uint64_t resent = 0;      ///< sent again because a connection had lost them
  std::uint64_t malformed = 0;   ///< dropped: not a message of ours
  std::uint64_t foreign = 0;     ///< dropped: another run or version, or a stranger's session
  std::uint64_t stale = 0;       ///< dropped: another generation
  std::uint64_t sent = 0;        ///< frames handed to ZeroMQ, for this process and all others
};

}  // namespace troupe
