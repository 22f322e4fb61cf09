#include "actors/starting_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <sstream>

#include "runtime/error.h"
#include "runtime/file/checkpoint.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/text.h"

namespace troupe {
namespace {

StateSpec spec_of(const Model& model, const std::vector<BlockRange>& blocks) {
  StateSpec spec;
  for (const BlockRange& range : blocks)
    for (std::size_t b = range.first; b < range.last; ++b) model.blocks[b]->declare(spec);
  return spec;
}

bool lives_in(const PipelineOptions& options, std::size_t stage, std::uint32_t process) {
  for (std::uint32_t replica = 0; replica < options.replicas; ++replica)
    if (process_of(options, stage, replica) == process) return true;
  return false;
}

/// Steps with staleness need not be updates. Checkpoints of earlier versions do not count them.
std::int64_t updates_of(const Manifest& manifest) {
  const auto found = manifest.run.find("updates");
  if (found == manifest.run.end()) return manifest.step;
  const std::string& text = found->second;
  std::int64_t updates = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), updates);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!whole || updates < 0 || updates > manifest.step)
    throw Error(ErrorCode::bad_file,
                fmt::format("the checkpoint of step {} has a wrong number of updates: {}",
                            manifest.step, printable(text)),
                "resume from another checkpoint");
  return updates;
}

/// As write_snapshots writes it; none if the run that wrote the checkpoint did not scale losses.
std::optional<LossScale> loss_scale_of(const Manifest& manifest) {
  const auto found = manifest.run.find("loss_scale");
  if (found == manifest.run.end()) return std::nullopt;
  LossScale read;
  std::istringstream numbers(found->second);
  numbers >> read.scale >> read.finite_steps >> read.overflows;
  if (numbers.fail() || !numbers.eof() || !is_loss_scale(read.scale) || read.finite_steps < 0 ||
      read.overflows < 0)
    throw Error(ErrorCode::bad_file,
                fmt::format("the checkpoint of step {} has a wrong loss scale: {}", manifest.step,
                            printable(found->second)),
                "resume from another checkpoint");
  return read;
}

}  // namespace

std::vector<StatePtr> states_from(const PipelineOptions& options, std::uint32_t process,
                                  const TensorSource& tensors, std::int64_t step,
                                  const std::vector<std::string>& optimizer_state) {
  // Every process tells whether the file holds all of the model, and loads its own part.
  const Model model = model_of(options);
  const BlockRange whole{0, model.blocks.size()};
  check_tensors(spec_of(model, {whole}), tensors, optimizer_state, true);
  std::vector<StatePtr> states;
  for (std::size_t stage = 0; stage < options.partition.size(); ++stage)
    states.push_back(lives_in(options, stage, process)
                         ? state_from(spec_of(model, blocks_of(options, stage)), options.dtype,
                                      tensors, step, optimizer_state, false)
                         : nullptr);
  return states;
}

void resume_from(PipelineOptions& options, const std::filesystem::path& path,
                 std::uint32_t process) {
  const Checkpoint checkpoint = open_complete_checkpoint(newest_complete_checkpoint(path).folder);
  const std::int64_t step = checkpoint.manifest().step;
  if (step > std::numeric_limits<std::uint32_t>::max())
    throw Error(ErrorCode::bad_file,
                fmt::format("{} is of step {}, which is too large", path.string(), step),
                "use a checkpoint of at most 4294967295 steps");
  const auto optimizer = checkpoint.manifest().run.find("optimizer");
  if (optimizer != checkpoint.manifest().run.end() && optimizer->second != options.optimizer.name())
    throw Error(ErrorCode::bad_options,
                fmt::format("`Optimizer::name` is {}, but {} was written with {}",
                            options.optimizer.name(), path.string(), optimizer->second),
                fmt::format("resume with {}, or start a new run from the weights alone",
                            optimizer->second));
  options.first_step = static_cast<std::uint32_t>(step);
  const std::vector<std::string> optimizer_state =
      step > 0 ? options.optimizer.state_names() : std::vector<std::string>{};
  options.initial = states_from(options, process, checkpoint.source(), step, optimizer_state);
  for (StatePtr& state : options.initial) {
    if (!state) continue;
    auto resumed = std::make_shared<StateVersion>(*state);
    resumed->updates = updates_of(checkpoint.manifest());
    if (loss_scale_options(options)) resumed->loss_scale = loss_scale_of(checkpoint.manifest());
    state = std::move(resumed);
  }
}

}  // namespace troupe
