// troupe export: the weights of a checkpoint as a safetensors file, with PyTorch's names.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/command.h"
#include "apps/files/file_kind.h"
#include "apps/files/weights_file.h"
#include "apps/verbs.h"
#include "runtime/file/safetensors.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {
namespace {

struct ExportArguments {
  std::filesystem::path checkpoint;
  std::filesystem::path output;
  bool force = false;
};

/// Only an older export, or an empty file, may be replaced without --force.
void check_may_replace(const std::filesystem::path& output) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(output, ignored)) return;
  const FileKind kind = file_kind(output);
  if (kind != FileKind::safetensors && kind != FileKind::empty)
    throw Error(ErrorCode::usage,
                fmt::format("{} exists and is not a safetensors file", output.string()),
                "choose another name, or replace it with --force");
}

/// PyTorch loads files of these names by torch.load, which does not read safetensors.
void warn_of_name(const std::filesystem::path& output) {
  const std::string extension = output.extension().string();
  if (extension == ".pt" || extension == ".pth" || extension == ".bin" || extension == ".ckpt")
    print_warning(
        "{} is written as safetensors, which torch.load does not read; "
        "load it with safetensors.torch.load_file",
        output.string());
}

int export_weights(const ExportArguments& arguments) {
  if (!arguments.force) check_may_replace(arguments.output);
  warn_of_name(arguments.output);
  const WeightsFile weights = open_weights(find_weights(arguments.checkpoint));
  // "pt": transformers and others require it before they load a file into PyTorch.
  stream_safetensors(arguments.output, weights.tensors, {{"format", "pt"}}).value();
  print_out("{}: {} of step {}, from {}\n", arguments.output.string(),
            counted(std::ssize(weights.tensors.tensors), "tensor"), weights.step,
            weights.path.string());
  return exit_done;
}

}  // namespace

void add_export_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* verb = app.add_subcommand("export", "Write a checkpoint's weights as safetensors");
  verb->add_option("CHECKPOINT", arguments->checkpoint,
                   "checkpoint, or output folder (newest checkpoint)")
      ->required();
  verb->add_option("-o,--output", arguments->output, "safetensors file to write")->required();
  verb->add_flag("--force", arguments->force,
                 "replace an existing file that is not a safetensors file");
  verb->callback([arguments, &chosen] {
    chosen = [arguments](const Invocation&) { return export_weights(*arguments); };
  });
}

}  // namespace troupe
