#include "actors/starting_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ops/nn/network.h"
#include "runtime/error.h"
#include "runtime/file/checkpoint.h"
#include "runtime/file/checkpoint_folder.h"

namespace troupe {
namespace {

StateSpec spec_of(const PipelineOptions& options, BlockRange blocks) {
  Model model = model_of(options);
  const std::size_t last = std::min(blocks.last, model.blocks.size());
  return Network(std::move(model), blocks.first, last, options.dtype, options.stream).spec();
}

bool lives_in(const PipelineOptions& options, std::size_t stage, std::uint32_t process) {
  for (std::uint32_t replica = 0; replica < options.replicas; ++replica)
    if (process_of(options, stage, replica) == process) return true;
  return false;
}

}  // namespace

std::vector<StatePtr> states_from(const PipelineOptions& options, std::uint32_t process,
                                  const TensorSource& tensors, std::int64_t step,
                                  const std::vector<std::string>& optimizer_state) {
  // Headers tell whether the file holds all of the model; each process loads its own part.
  check_tensors(spec_of(options, {0, SIZE_MAX}), tensors.tensors, optimizer_state, true);
  std::vector<StatePtr> states;
  for (std::size_t stage = 0; stage < options.partition.size(); ++stage)
    states.push_back(lives_in(options, stage, process)
                         ? state_from(spec_of(options, blocks_of(options, stage)), options.dtype,
                                      tensors, step, optimizer_state, false)
                         : nullptr);
  return states;
}

void resume_from(PipelineOptions& options, const std::filesystem::path& path,
                 std::uint32_t process) {
  const Checkpoint checkpoint = open_checkpoint(newest_whole_checkpoint(path).folder);
  const std::int64_t step = checkpoint.manifest().step;
  if (step > std::numeric_limits<std::uint32_t>::max())
    throw Error(ErrorCode::bad_file, fmt::format("{} is of step {}", path.string(), step),
                "use a checkpoint of at most 4294967295 steps");
  options.first_step = static_cast<std::uint32_t>(step);
  const std::vector<std::string> optimizer_state =
      step > 0 ? options.optimizer->state_names() : std::vector<std::string>{};
  options.initial = states_from(options, process, checkpoint.source(), step, optimizer_state);
}

}  // namespace troupe
