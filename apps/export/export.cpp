// troupe export: the weights of a checkpoint as a safetensors file, under PyTorch's names.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/command.h"
#include "apps/files/file_kind.h"
#include "apps/files/weights_file.h"
#include "apps/verbs.h"
#include "runtime/file/safetensors.h"

namespace troupe {
namespace {

struct ExportArguments {
  std::filesystem::path checkpoint;
  std::filesystem::path output;
  bool force = false;
};

/// A slip of the hand names a file that is dear to somebody; an older export is not.
void check_may_replace(const std::filesystem::path& output) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(output, ignored)) return;
  const FileKind kind = file_kind(output);
  if (kind != FileKind::safetensors && kind != FileKind::empty)
    throw Error(ErrorCode::usage,
                fmt::format("{} is there and is no safetensors file", output.string()),
                "choose another name, or replace it with --force");
}

int export_weights(const ExportArguments& arguments) {
  if (!arguments.force) check_may_replace(arguments.output);
  const WeightsFile weights = open_weights(find_weights(arguments.checkpoint));
  // "pt": what transformers and others look for before they load a file into PyTorch.
  stream_safetensors(arguments.output, weights.tensors, {{"format", "pt"}}).value();
  fmt::print("{}: {} tensors of step {}, from {}\n", arguments.output.string(),
             weights.tensors.tensors.size(), weights.step, weights.path.string());
  return exit_done;
}

}  // namespace

void add_export_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* verb = app.add_subcommand("export", "Write a checkpoint's weights as safetensors");
  verb->add_option("CHECKPOINT", arguments->checkpoint, "checkpoint, or output folder: its newest")
      ->required();
  verb->add_option("-o,--output", arguments->output, "file to write")->required();
  verb->add_flag("--force", arguments->force, "replace a file that is no safetensors file");
  verb->callback([arguments, &chosen] {
    chosen = [arguments](const std::string&) { return export_weights(*arguments); };
  });
}

}  // namespace troupe
