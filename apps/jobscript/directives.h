#pragma once
#include <string>

#include "apps/jobscript/job.h"

namespace troupe {

/// The lines of a job script that sbatch reads: "#SBATCH --nodes=2", each with its reason.
std::string directives(const JobLayout& layout, const JobRequest& request);

}  // namespace troupe
