// troupe inspect: the content of a checkpoint, a model, a file of weights or an IDX file, and its
// checksums.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "apps/command.h"
#include "apps/files/best_checkpoint.h"
#include "apps/inspect/inspect_graph.h"
#include "apps/inspect/print_columns.h"
#include "apps/train/training.h"
#include "apps/verbs.h"
#include "ops/graph/read_graph.h"
#include "runtime/file/checkpoint.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/file/digest.h"
#include "runtime/file/file_kind.h"
#include "runtime/file/idx.h"
#include "runtime/file/safetensors.h"
#include "runtime/file/torch_file.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {
namespace {

struct InspectArguments {
  std::filesystem::path file;
  bool digest = false;
};

struct Row {
  std::string name, dtype, shape;
  std::uint64_t bytes = 0;
};

Row row_of(const std::string& name, DType dtype, const Shape& shape) {
  const auto elements = static_cast<std::uint64_t>(shape.element_count());
  return {name, std::string(name_of(dtype)), to_string(shape), elements * size_of(dtype)};
}

/// Prints a value that a file has for a key.
void print_entry(std::string_view what, const std::string& key, const std::string& value) {
  print_out("{} {}: {}\n", what, printable(key, key.size()), printable(value, value.size()));
}

void print_table(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> table{{"name", "dtype", "shape", "bytes"}};
  std::uint64_t total = 0;
  for (const Row& row : rows) {
    table.push_back({row.name, row.dtype, row.shape, std::to_string(row.bytes)});
    total += row.bytes;
  }
  table.push_back({counted(std::ssize(rows), "tensor"), "", "", std::to_string(total)});
  print_columns(table);
}

/// "/5", or nothing of an unknown total.
std::string of_total(std::string_view separator, std::uint64_t total) {
  return total == 0 ? "" : fmt::format("{}{}", separator, total);
}

/// The position that `troupe train` writes, with epochs from 1 as in its epoch lines: "after step 7
/// of 20, in epoch 2/5 (step 3 of 4), seed 1". Older checkpoints lack the totals. Other JSON is
/// returned unchanged.
std::string position_text(const std::string& json) {
  const nlohmann::json position = nlohmann::json::parse(json);
  for (const char* name : {"step", "epoch", "step_of_epoch", "seed"})
    if (!position.contains(name)) return json;
  const auto number = [&](const char* name) -> std::uint64_t {
    const auto found = position.find(name);
    if (found == position.end() || !found->is_number_unsigned()) return 0;
    return found->get<std::uint64_t>();
  };
  const std::uint64_t steps = number("steps"), length = number("steps_per_epoch");
  const std::uint64_t ended = number("epoch"), begun = number("step_of_epoch");
  const std::uint64_t epochs = number("epochs");
  std::string text = fmt::format("after step {}{}", number("step"), of_total(" of ", steps));
  if (begun > 0)
    text += fmt::format(", in epoch {}{} (step {}{})", ended + 1, of_total("/", epochs), begun,
                        of_total(" of ", length));
  else if (ended > 0)
    text += fmt::format(", at the end of epoch {}{}", ended, of_total("/", epochs));
  return fmt::format("{}, seed {}", text, number("seed"));
}

/// "90 tensors of the model, 697930 bytes".
std::string share_text(const std::vector<Row>& rows, std::string_view of_whom) {
  std::uint64_t bytes = 0;
  for (const Row& row : rows) bytes += row.bytes;
  return fmt::format("{} of the {}, {} bytes", counted(std::ssize(rows), "tensor"), of_whom, bytes);
}

/// The checkpoint that `path` stands for, with a warning for each newer one that is damaged.
CheckpointChoice checkpoint_of(const std::filesystem::path& path) {
  CheckpointChoice choice = newest_complete_checkpoint(path);
  for (const auto& reason : choice.skipped) print_warning("skipped {}", reason);
  return choice;
}

/// The numbers of a text, or none if it has anything else.
template <class T>
std::vector<T> numbers_in(const std::string& text) {
  std::istringstream in(text);
  std::vector<T> numbers{std::istream_iterator<T>(in), {}};
  return in.eof() && text.find('-') == std::string::npos ? numbers : std::vector<T>();
}

/// What `troupe train` writes of a run: "loss scale: 65536, 5 finite steps, 0 overflows". Entries
/// of others, and damaged ones, are printed as they are.
void print_run(const std::string& key, const std::string& value) {
  static const std::map<std::string_view, std::string_view> titles{
      {"loss_scale", "loss scale"},
      {"optimizer", "optimizer"},
      {"partition", "partition"},
      {"processor", "processor"},
      {"test_samples", "test samples"},
      {"training_samples", "training samples"},
      {"updates", "updates"}};
  const auto title = titles.find(key);
  if (title == titles.end()) return print_entry("run", key, value);
  std::string text = printable(value, value.size());
  if (key == "partition")
    if (const auto blocks = numbers_in<std::size_t>(value); !blocks.empty())
      text = partition_text(blocks);
  if (key == "loss_scale")
    if (const auto scale = numbers_in<double>(value); scale.size() == 3)
      text = fmt::format("{}, {}, {}", scale[0],
                         counted(static_cast<std::int64_t>(scale[1]), "finite step"),
                         counted(static_cast<std::int64_t>(scale[2]), "overflow"));
  print_out("{}: {}\n", title->second, text);
}

/// Returns whether all checkpoints that are newer than the one it lists are complete.
bool inspect_checkpoint(const std::filesystem::path& path) {
  const CheckpointChoice choice = checkpoint_of(path);
  const Checkpoint checkpoint = open_complete_checkpoint(choice.folder);
  checkpoint.verify();
  const Manifest& manifest = checkpoint.manifest();
  constexpr std::size_t most_position = 1000;
  print_out("{}: checkpoint of step {}, written {}, in {}; all checksums match\n",
            choice.folder.string(), manifest.step, printable(manifest.created),
            counted(std::ssize(manifest.shards), "shard"));
  if (!manifest.position.empty() && manifest.position != "null")
    print_out("position: {}\n", printable(position_text(manifest.position), most_position));
  if (manifest.generation > 0) print_out("world generation: {}\n", manifest.generation);
  for (const auto& [key, value] : manifest.run) print_run(key, value);
  if (const auto best = best_checkpoint_of(path)) {
    for (const auto& reason : best->skipped)
      if (std::ranges::count(choice.skipped, reason) == 0) print_warning("skipped {}", reason);
    print_out("best checkpoint by {}: {}: {}\n", best->monitor, best->folder.string(),
              scores_text(best->evaluation));
  }
  std::vector<Row> model, optimizer;
  for (const auto& tensor : checkpoint.tensors())
    (tensor.name.starts_with("optimizer.") ? optimizer : model)
        .push_back(row_of(tensor.name, tensor.dtype, tensor.shape));
  print_out("{}; {}\n\n", share_text(model, "model"), share_text(optimizer, "optimizer"));
  model.insert(model.end(), optimizer.begin(), optimizer.end());
  print_table(model);
  return choice.skipped.empty();
}

/// The same for its digest.
bool print_checkpoint_digest(const std::filesystem::path& path) {
  const CheckpointChoice choice = checkpoint_of(path);
  print_out("{}\n", digest_of(choice.folder));
  return choice.skipped.empty();
}

std::vector<Row> rows_by_name(const std::vector<TensorInfo>& tensors) {
  std::vector<Row> rows;
  rows.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors)
    rows.push_back(row_of(tensor.name, tensor.dtype, tensor.shape));
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.name < b.name; });
  return rows;
}

void inspect_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile content = SafetensorsFile::open(path);
  print_out("{}: safetensors; the header matches the file (the format has no checksums)\n",
            path.string());
  for (const auto& [key, value] : content.metadata()) print_entry("metadata", key, value);
  print_table(rows_by_name(content.tensors()));
}

void inspect_torch(const std::filesystem::path& path, const TorchWeights& weights,
                   std::string_view kind) {
  // Which compares each storage with its checksum.
  for (const TensorInfo& tensor : weights.tensors.tensors) (void)weights.tensors.read(tensor.name);
  print_out("{}: {}; {}\n", path.string(), kind,
            weights.has_checksums ? "all checksums match" : "complete; it has no checksums");
  if (!weights.part.empty()) print_out("weights: {}\n", weights.part);
  constexpr std::size_t shown = 20;
  if (!weights.others.empty()) print_out("other entries: {}\n", listed(weights.others, shown));
  print_table(rows_by_name(weights.tensors.tensors));
}

void inspect_idx(const std::filesystem::path& path) {
  const Tensor content = read_idx(path);
  print_out("{}: IDX; complete\n", path.string());
  print_table({row_of(path.filename().string(), content.dtype(), content.shape())});
}

constexpr std::string_view inspected_files =
    "a checkpoint, an output folder, a model (.pt2 or .onnx), or a PyTorch, safetensors or IDX "
    "file (IDX plain or compressed by gzip)";

int inspect(const InspectArguments& arguments) {
  const auto [path, part] = torch_path(arguments.file);
  const bool is_folder = std::filesystem::is_directory(path);
  const FileKind kind = is_folder ? FileKind::unknown : file_kind(path);
  if (!is_folder && !arguments.digest && graph::holds_graph(path)) {
    inspect_graph(path);
    return exit_done;
  }
  const bool is_data = kind == FileKind::idx || kind == FileKind::gzip;
  const bool is_weights = kind == FileKind::safetensors || kind == FileKind::torch_zip;
  if (!is_folder && !is_weights && (arguments.digest || !is_data))
    throw foreign_file(path, kind, arguments.digest ? weights_files : inspected_files);
  if (is_folder && !is_distributed_checkpoint(path)) {
    const bool complete =
        arguments.digest ? print_checkpoint_digest(path) : inspect_checkpoint(path);
    return complete ? exit_done : exit_failed;
  }
  if (arguments.digest)
    print_out("{}\n", digest_of(arguments.file));
  else if (is_folder)
    inspect_torch(path, open_distributed_checkpoint(path, part),
                  "distributed checkpoint of PyTorch");
  else if (kind == FileKind::torch_zip)
    inspect_torch(path, open_torch_file(path, part), "PyTorch file");
  else if (is_data)
    inspect_idx(path);
  else
    inspect_safetensors(path);
  return exit_done;
}

}  // namespace

void add_inspect_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* verb =
      app.add_subcommand("inspect", "List and verify the content of a checkpoint or file");
  verb->add_option(
          "FILE", arguments->file,
          "checkpoint, output folder, model (.pt2, .onnx),\nPyTorch, safetensors or IDX file")
      ->required();
  verb->add_flag("--digest", arguments->digest,
                 "verify all weights and buffers, and print one SHA-256 of them");
  verb->callback([arguments, &chosen] {
    chosen = [arguments](const Invocation&) { return inspect(*arguments); };
  });
}

}  // namespace troupe
