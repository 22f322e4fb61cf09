#pragma once
#include <filesystem>

#include "actors/pipeline.h"
#include "runtime/error.h"

namespace troupe {

/// Makes std::terminate print an error and exit with its code when a thread or an allocation failed
/// where no handler of this program can catch it: CAF terminates the process when a thread does not
/// start or a message cannot be allocated. Other terminations abort as usual.
void prepare_for_memory_shortage();

/// An error of an allocator for want of memory with the bound of a plan, where the costs of the
/// blocks are known, and with how to see its parts; other errors as they are. `options`: the file.
Error with_memory_bound(const Error& error, const PipelineOptions& pipeline,
                        const std::filesystem::path& options);

}  // namespace troupe
