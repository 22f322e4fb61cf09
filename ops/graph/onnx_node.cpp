#include "ops/graph/onnx_node.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

#include "runtime/text.h"

namespace troupe::graph::onnx {
namespace {

// AttributeProto.AttributeType.
constexpr int type_float = 1, type_int = 2, type_string = 3, type_tensor = 4, type_floats = 6,
              type_ints = 7;

std::string beginning(const std::string& text) { return text.substr(0, 500); }

/// The texts between quotes of a Python list of texts: "['', 'layer1', 'conv2d']".
std::vector<std::string> quoted_texts(std::string_view list) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < list.size(); ++at) {
    if (list[at] != '\'' && list[at] != '"') continue;
    const std::size_t end = list.find(list[at], at + 1);
    if (end == list.npos) break;
    texts.emplace_back(list.substr(at + 1, end - at - 1));
    at = end;
  }
  return texts;
}

/// `File "/a/net.py", line 12, in forward` as "net.py, line 12".
std::string frame_of(std::string_view line) {
  const std::string_view begin = "File \"", middle = "\", line ";
  const std::size_t from = line.find(begin), number = line.find(middle);
  if (from == line.npos || number == line.npos || number < from + begin.size()) return "";
  const std::string_view path = line.substr(from + begin.size(), number - from - begin.size());
  const std::string_view rest = line.substr(number + middle.size());
  const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  const std::size_t slash = path.rfind('/');
  return fmt::format("{}, line {}", path.substr(slash == path.npos ? 0 : slash + 1),
                     rest.substr(0, digits));
}

}  // namespace

double shortest_decimal(float value) {
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double result = value;
  std::from_chars(text.data(), end, result);
  return result;
}

std::string NodeView::name() const {
  if (!node_->name().empty()) return beginning(node_->name());
  return beginning(node_->output_size() > 0 ? node_->output(0) : node_->op_type());
}

std::string NodeView::module() const {
  const std::vector<std::string> scopes = quoted_texts(metadata("pkg.torch.onnx.name_scopes"));
  // The last is the node's own name; the one before it is its module.
  return scopes.size() < 2 ? "" : beginning(scopes[scopes.size() - 2]);
}

bool NodeView::has_module() const { return !metadata("pkg.torch.onnx.name_scopes").empty(); }

std::string NodeView::source() const {
  const std::string trace = metadata("pkg.torch.onnx.stack_trace");
  std::string found;
  for (std::size_t at = 0; at < trace.size();) {
    const std::size_t end = std::min(trace.find('\n', at), trace.size());
    const std::string_view line = std::string_view(trace).substr(at, end - at);
    const bool is_own = line.find("/torch/") != line.npos || line.find("\"torch/") != line.npos;
    if (!is_own)  // of PyTorch
      if (std::string frame = frame_of(line); !frame.empty()) found = std::move(frame);
    at = end + 1;
  }
  return beginning(found);
}

bool NodeView::is_for_inference() const {
  constexpr std::string_view in_evaluation = "batch_norm_legit_no_training";
  return (has("training_mode") && integer("training_mode", 0) == 0) ||
         node_->name().find(in_evaluation) != std::string::npos ||
         metadata("pkg.torch.onnx.fx_node").find(in_evaluation) != std::string::npos;
}

const std::string& NodeView::input(int index) const {
  static const std::string absent;
  return index < node_->input_size() ? node_->input(index) : absent;
}

const onnx_wire::Attribute* NodeView::find(std::string_view attribute) const {
  for (const auto& candidate : node_->attribute())
    if (candidate.name() == attribute) return &candidate;
  return nullptr;
}

const onnx_wire::Attribute* NodeView::find(std::string_view attribute, int type) const {
  const onnx_wire::Attribute* found = find(attribute);
  if (found && found->type() != type)
    damaged(
        fmt::format("its attribute '{}' is of type {}, not {}", attribute, found->type(), type));
  return found;
}

std::int64_t NodeView::integer(std::string_view attribute, std::int64_t otherwise) const {
  const auto* found = find(attribute, type_int);
  return found ? found->i() : otherwise;
}

double NodeView::real(std::string_view attribute, double otherwise) const {
  const auto* found = find(attribute, type_float);
  return found ? shortest_decimal(found->f()) : otherwise;
}

std::string NodeView::text(std::string_view attribute, std::string_view otherwise) const {
  const auto* found = find(attribute, type_string);
  return found ? found->s() : std::string(otherwise);
}

std::optional<std::vector<std::int64_t>> NodeView::integers(std::string_view attribute) const {
  const auto* found = find(attribute, type_ints);
  if (!found) return std::nullopt;
  return std::vector<std::int64_t>(found->ints().begin(), found->ints().end());
}

std::vector<double> NodeView::reals(std::string_view attribute) const {
  std::vector<double> values;
  if (const auto* found = find(attribute, type_floats))
    for (const float value : found->floats()) values.push_back(shortest_decimal(value));
  return values;
}

const onnx_wire::Tensor* NodeView::tensor(std::string_view attribute) const {
  const auto* found = find(attribute, type_tensor);
  return found ? &found->t() : nullptr;
}

std::string NodeView::metadata(std::string_view key) const {
  for (const auto& entry : node_->metadata_props())
    if (entry.key() == key) return entry.value();
  return "";
}

std::vector<std::string> NodeView::noted_arguments(std::string_view torch_operator) const {
  // "%e : [num_users=1] = call_function[target=torch.ops.aten.NAME](args = (%w, %x, 10), kwargs =
  // …"
  const std::string note = metadata("pkg.torch.onnx.fx_node");
  const std::string begin = fmt::format("aten.{}](args = (", torch_operator);
  std::vector<std::string> arguments;
  auto at = note.find(begin);
  if (at == note.npos) return arguments;
  at += begin.size();
  const auto end = std::min(note.find(')', at), note.size());
  while (at < end) {
    const auto comma = std::min(note.find(", ", at), end);
    arguments.push_back(note.substr(at, comma - at));
    at = comma + 2;
  }
  return arguments;
}

std::string NodeView::where() const {
  std::string text =
      fmt::format("{}: node '{}' ({})", *origin_, printable(name()), printable(operation()));
  if (const std::string path = module(); !path.empty())
    text += fmt::format(" in module '{}'", printable(path));
  if (const std::string line = source(); !line.empty()) text += ", " + printable(line);
  return text;
}

void NodeView::refuse(std::string_view what, std::string remedy) const {
  throw NodeRefused(where(), std::string(what), std::move(remedy));
}

void NodeView::damaged(std::string_view what) const {
  throw Error(ErrorCode::bad_file, fmt::format("{}: {}", where(), what),
              "the file is damaged or was written wrongly: export it again");
}

}  // namespace troupe::graph::onnx
