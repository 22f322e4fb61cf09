#pragma once
#include <sys/types.h>

#include <span>

namespace troupe {

/// Reaps what the launcher has adopted as a subreaper and what has ended: every child but `own`.
void reap_adopted(std::span<const pid_t> own);

/// Kills whatever is left of the launcher's descendants but `spared`, and reaps it. All are its
/// children sooner or later, as those whose parent ends are handed up to it.
void end_stragglers(pid_t spared);

}  // namespace troupe
