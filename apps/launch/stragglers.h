#pragma once
#include <sys/types.h>

#include <span>

namespace troupe {

/// Reaps ended children that the launcher has adopted as a subreaper: all but `own`.
void reap_adopted(std::span<const pid_t> own);

/// Kills and reaps all remaining descendants of the launcher but `spared`. They all become its
/// children as their parents end.
void end_stragglers(pid_t spared);

}  // namespace troupe
