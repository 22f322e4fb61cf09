#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "actors/pipeline.h"
#include "runtime/tensor/named_tensor.h"

namespace troupe {

/// The state of each stage that has a replica in `process`, from the tensors of a file; null for
/// other stages. Tensors are read one after the other, so no process holds the whole model. `step`
/// is the number of optimizer steps in the tensors; `optimizer_state` names the state tensors of
/// the optimizer that are loaded as well. Throws Error{other_model} if the file does not contain
/// the whole model.
std::vector<StatePtr> states_from(const PipelineOptions& options, std::uint32_t process,
                                  const TensorSource& tensors, std::int64_t step = 0,
                                  const std::vector<std::string>& optimizer_state = {});

/// Makes a run resume from a checkpoint: sets `first_step` and `initial`. `path` is a checkpoint,
/// or a folder, of which the newest complete one is used. The weights are bitwise identical to
/// those of a run that was not interrupted, if model, data and `batch_size` are those of the run
/// that wrote it. Throws Error{other_model} for a checkpoint of another model,
/// Error{bad_options} for one of another optimizer.
void resume_from(PipelineOptions& options, const std::filesystem::path& path,
                 std::uint32_t process = 0);

}  // namespace troupe
