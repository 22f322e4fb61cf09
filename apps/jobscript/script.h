#pragma once
#include <string>
#include <vector>

#include "apps/jobscript/job.h"

namespace troupe {

/// The commands of the script, and the command that created it.
struct ScriptText {
  std::string command_line;            ///< that made it, for its heading
  std::string options;                 ///< the options file, as the job finds it
  std::vector<std::string> overrides;  ///< of `troupe train -r`
  std::string cluster = {};            ///< for `troupe doctor`; empty: unknown there
};

/// The whole job script for sbatch.
std::string job_script(const JobLayout& layout, const JobRequest& request, const ScriptText& text);

}  // namespace troupe
