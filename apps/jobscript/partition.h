#pragma once
#include <cstdint>
#include <string>

#include "apps/jobscript/job.h"

namespace troupe {

/// The requested partition (name and QOS), or the first that accepts the job. Throws
/// Error{usage}: an unknown name with the nearest known one, a job that no partition takes with the
/// limits of each.
ClusterProfile::Partition choose_partition(const ClusterProfile& profile, const JobRequest& request,
                                           std::int64_t gpus);

/// The limit that the job exceeds ("at most 4 nodes, not 8"), or empty.
std::string beyond(const ClusterProfile::Partition& partition, const JobRequest& request,
                   std::int64_t gpus);

}  // namespace troupe
