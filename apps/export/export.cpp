// troupe export: the weights of a checkpoint as a file of PyTorch or safetensors, with PyTorch's
// names.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "actors/weights_file.h"
#include "apps/command.h"
#include "apps/files/best_checkpoint.h"
#include "apps/verbs.h"
#include "runtime/file/file_kind.h"
#include "runtime/file/safetensors.h"
#include "runtime/file/torch_file.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {
namespace {

struct ExportArguments {
  std::filesystem::path checkpoint;
  std::filesystem::path output;
  bool best = false;
  bool force = false;
};

/// In small letters, as case does not matter.
std::string extension_of(const std::filesystem::path& output) {
  std::string extension = output.extension().string();
  for (char& letter : extension)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return extension;
}

/// Files of these names are written as torch.save does.
bool is_torch_name(const std::filesystem::path& output) {
  const std::string extension = extension_of(output);
  return extension == ".pt" || extension == ".pth";
}

/// Only an older export, or an empty file, may be replaced without --force.
void check_may_replace(const std::filesystem::path& output) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(output, ignored)) return;
  const FileKind kind = file_kind(output);
  const bool is_torch = is_torch_name(output);
  if (kind != FileKind::empty && kind != (is_torch ? FileKind::torch_zip : FileKind::safetensors))
    throw Error(ErrorCode::usage,
                fmt::format("{} exists and is not a {} file", output.string(),
                            is_torch ? "PyTorch" : "safetensors"),
                "choose another name, or replace it with --force");
}

/// Other extensions promise other formats; .bin and .ckpt are files of torch.load, which does not
/// read safetensors.
void warn_of_name(const std::filesystem::path& output) {
  const std::string extension = extension_of(output);
  if (!extension.empty() && extension != ".safetensors" && !is_torch_name(output))
    print_warning(
        "{} is written as safetensors, which torch.load does not read; "
        "load it with safetensors.torch.load_file, or export a .pt file",
        output.string());
}

/// Files of these names are read as models, not as weights.
void refuse_name_of_model(const std::filesystem::path& output) {
  const std::string extension = extension_of(output);
  for (const auto& [of_model, writer] :
       {std::pair(".pt2", "torch.export.save"), std::pair(".onnx", "torch.onnx.export")})
    if (extension == of_model)
      throw Error(ErrorCode::usage,
                  fmt::format("{}: export writes weights, not a model", output.string()),
                  fmt::format("name the file .pt or .safetensors; {} writes {}", writer, of_model));
}

int export_weights(const ExportArguments& arguments) {
  refuse_name_of_model(arguments.output);
  if (!arguments.force) check_may_replace(arguments.output);
  warn_of_name(arguments.output);
  const WeightsFile weights = open_weights(arguments.best ? find_best_weights(arguments.checkpoint)
                                                          : find_weights(arguments.checkpoint));
  if (is_torch_name(arguments.output))
    stream_torch_file(arguments.output, weights.tensors).value();
  else  // "pt": transformers and others require it before they load a file into PyTorch
    stream_safetensors(arguments.output, weights.tensors, {{"format", "pt"}}).value();
  print_out("{}: {}{}, from {}\n", arguments.output.string(),
            counted(std::ssize(weights.tensors.tensors), "tensor"),
            weights.step > 0 ? fmt::format(" of step {}", weights.step) : "", weights.name());
  return exit_done;
}

}  // namespace

void add_export_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* verb = app.add_subcommand("export", "Write a checkpoint's weights for PyTorch");
  verb->add_option("CHECKPOINT", arguments->checkpoint,
                   "checkpoint, or output folder (newest checkpoint)")
      ->required();
  verb->add_option("-o,--output", arguments->output,
                   "file to write: .pt or .pth (as torch.save), or .safetensors")
      ->required()
      ->option_text("FILE");
  verb->add_flag("--best", arguments->best,
                 "of an output folder, take the checkpoint with the best\n"
                 "evaluation by train.monitor, not the newest one");
  verb->add_flag("--force", arguments->force, "replace an existing file of another format");
  verb->callback([arguments, &chosen] {
    chosen = [arguments](const Invocation&) { return export_weights(*arguments); };
  });
}

}  // namespace troupe
