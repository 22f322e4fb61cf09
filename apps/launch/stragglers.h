#pragma once
#include <sys/types.h>

#include <span>

namespace troupe {

/// Reaps ended children that the launcher has adopted as a subreaper, which are all children except
/// `own`.
void reap_adopted(std::span<const pid_t> own);

/// Kills and reaps all remaining descendants of the launcher except `spared`. A descendant becomes
/// a child of the launcher when its parent ends.
void end_stragglers(pid_t spared);

}  // namespace troupe
