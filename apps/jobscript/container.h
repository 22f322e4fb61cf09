#pragma once
#include <string>
#include <vector>

#include "apps/jobscript/job.h"

namespace troupe {

/// A file that belongs to a job script, with its content.
struct DefinitionFile {
  std::string name;
  std::string content;
};

/// The files that define the job's container, in the order of their use: the definition of the
/// image and, for the container engine of CSCS, the environment definition file (EDF). Throws
/// Error{usage} if the site does not run this kind.
std::vector<DefinitionFile> container_files(const JobLayout& layout, const JobRequest& request);

/// The image as the script names it.
std::string image_of(const JobRequest& request);

/// A shell command that succeeds if the image exists on the node. Empty without a container, and
/// for an image of a registry, which cannot be checked on the node.
std::string container_test(const JobRequest& request);

/// Lines of the script that set up what container_prefix uses; empty without a container.
std::string container_setup(const JobLayout& layout, const JobRequest& request);

/// The words between srun and the program: "apptainer exec … IMAGE ", or nothing.
std::string container_prefix(const JobRequest& request);

}  // namespace troupe
