#include "ops/graph/onnx_signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "ops/graph/onnx_node.h"
#include "runtime/text.h"

namespace troupe::graph::onnx {
namespace {

using Role = Signature::Role;

constexpr std::string_view signature_key = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr std::string_view rewriter_key = "pkg.onnxscript.rewriter.rule_name";

[[noreturn]] void refuse(const File& file, const std::string& what) {
  throw Error(ErrorCode::unsupported, fmt::format("{}: {}", file.origin, what), onnx_export_line);
}

std::string signature_text(const File& file) {
  for (const auto* entries : {&file.model.graph().metadata_props(), &file.model.metadata_props()})
    for (const auto& entry : *entries)
      if (entry.key() == signature_key) return entry.value();
  return "";
}

/// The text between `begin` and the next `end`.
std::optional<std::string> between(std::string_view line, std::string_view begin, char end) {
  const std::size_t from = line.find(begin);
  if (from == line.npos) return std::nullopt;
  const std::string_view rest = line.substr(from + begin.size());
  return std::string(rest.substr(0, rest.find(end)));
}

/// A line `p_conv_weight: PARAMETER target='conv.weight'`.
void add_line(Signature& signature, std::string_view line) {
  const auto target = between(line, " target='", '\'');
  if (!target) return;
  const auto is = [&](std::string_view kind) { return line.find(kind) != line.npos; };
  if (is(": PARAMETER ")) signature.roles[*target] = Role::parameter;
  if (is(": BUFFER ")) signature.roles[*target] = Role::buffer;
  if (is(": CONSTANT_TENSOR ")) signature.roles[*target] = Role::constant;
  if (is(" persistent=False")) signature.transient.insert(*target);
  if (is(": BUFFER_MUTATION ")) signature.changed.insert(*target);
}

/// What batch norms read as running statistics.
std::set<std::string> statistics_of(const File& file) {
  std::set<std::string> statistics;
  for (const auto& node : file.model.graph().node())
    if (node.op_type() == "BatchNormalization")
      for (int i = 3; i < std::min(5, node.input_size()); ++i) statistics.insert(node.input(i));
  return statistics;
}

/// The roles without a signature: running statistics are buffers, other floating-point tensors
/// with axes are trained. One number may be a constant of another exporter.
void guess(Signature& signature, const File& file) {
  const std::set<std::string> statistics = statistics_of(file);
  std::size_t trained = 0;
  std::vector<std::string> numbers;
  for (const StoredTensor& tensor : file.initializers) {
    if (tensor.name.starts_with("onnx::"))
      refuse(file, fmt::format("its tensor '{}' has lost its name: the file was exported for "
                               "inference",
                               printable(tensor.name)));
    const bool is_trained = is_floating(tensor.dtype) && tensor.shape.rank() > 0;
    Role role = is_trained ? Role::parameter : Role::constant;
    if (statistics.contains(tensor.name)) role = Role::buffer;
    trained += role == Role::parameter ? 1 : 0;
    if (is_floating(tensor.dtype) && role == Role::constant)
      numbers.push_back(printable(tensor.name));
    signature.roles[tensor.name] = role;
  }
  signature.notes.push_back(
      fmt::format("the file does not state which tensors are trained: {} of {} are, all "
                  "floating-point ones but running statistics{}",
                  trained, file.initializers.size(),
                  numbers.empty() ? ""
                                  : fmt::format(" and numbers without an axis ({}); export with "
                                                "dynamo=True to train those",
                                                listed(numbers, 4))));
}

/// Whether a tensor has different elements. Tied weights have; the optimiser of the export also
/// merges the ones and zeros that layers begin with.
bool has_different_elements(const StoredTensor& stored) {
  const Tensor tensor = read_tensor(stored);
  const std::size_t size = size_of(tensor.dtype());
  for (std::size_t at = size; at < tensor.bytes(); at += size)
    if (std::memcmp(tensor.raw(), tensor.raw() + at, size) != 0) return true;
  return false;
}

/// The initializers that the nodes of each module read.
using Uses = std::multimap<std::string, const StoredTensor*>;

Uses uses_of(const File& file) {
  std::map<std::string_view, const StoredTensor*> by_name;
  for (const StoredTensor& tensor : file.initializers) by_name[tensor.name] = &tensor;
  Uses uses;
  for (const auto& node : file.model.graph().node())
    for (const auto& input : node.input())
      if (const auto found = by_name.find(input); found != by_name.end())
        uses.emplace(NodeView(node, file.origin).module(), found->second);
  return uses;
}

/// The tensor that a module uses in place of a parameter that the file lacks: exports keep one of
/// the names of tied weights. `encode.weight` is `decode.weight` if a node of the module `encode`
/// reads this.
const StoredTensor* tied_to(const Uses& uses, const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == name.npos) return nullptr;
  const std::string module = name.substr(0, dot), leaf = name.substr(dot);
  for (auto [use, end] = uses.equal_range(module); use != end; ++use) {
    const std::string& other = use->second->name;
    if (other.ends_with(leaf) && other.substr(0, other.size() - leaf.size()) != module)
      return use->second;
  }
  return nullptr;
}

[[noreturn]] void refuse_missing(const Signature& signature, const File& file,
                                 const std::string& name) {
  const bool has_norm = std::ranges::any_of(
      signature.roles, [](const auto& role) { return role.first.ends_with("running_mean"); });
  throw Error(ErrorCode::unsupported,
              fmt::format("{}: lacks '{}' of its own signature: it was exported with "
                          "optimize=True, which {}, or the model does not use '{}'",
                          file.origin, printable(name),
                          has_norm ? "folds batch norm into convolutions and merges parameters"
                                   : "merges parameters and folds them into constants",
                          printable(name)),
              fmt::format("delete what the model does not use, and {}", onnx_export_line));
}

/// Refuses operators that an optimizing export has rewritten, as it notes itself.
void check_is_not_rewritten(const File& file) {
  for (const auto& node : file.model.graph().node())
    for (const auto& entry : node.metadata_props())
      if (entry.key() == rewriter_key) {
        const bool folds_norm = entry.value().find("BatchNorm") != std::string::npos;
        NodeView(node, file.origin)
            .refuse(fmt::format("the export has {} (optimize=True, its default)",
                                folds_norm ? "folded batch norm into it, for inference"
                                           : "rewritten it for inference"));
      }
}

void find_missing(Signature& signature, const File& file) {
  std::set<std::string_view> names;
  for (const StoredTensor& tensor : file.initializers) names.insert(tensor.name);
  const Uses uses = uses_of(file);
  for (const auto& [name, role] : signature.roles) {
    if (names.contains(name) || role == Role::constant || name.ends_with("num_batches_tracked"))
      continue;
    const bool statistic = name.ends_with("running_mean") || name.ends_with("running_var");
    if (role == Role::buffer && !statistic) {
      if (!signature.transient.contains(name))
        signature.notes.push_back(
            fmt::format("the file lacks the buffer {}, which no operation reads", printable(name)));
      continue;
    }
    const StoredTensor* tied = role == Role::parameter ? tied_to(uses, name) : nullptr;
    if (!tied || !has_different_elements(*tied)) refuse_missing(signature, file, name);
    signature.tied[name] = tied->name;
  }
}

/// Only batch norm's buffers change.
void note_changed(Signature& signature, const File& file) {
  const std::set<std::string> statistics = statistics_of(file);
  for (const std::string& name : signature.changed)
    if (!statistics.contains(name) && !name.ends_with("num_batches_tracked"))
      signature.notes.push_back(fmt::format(
          "the buffer {}, which the module writes to, keeps its value here", printable(name)));
}

}  // namespace

Role Signature::role_of(const std::string& initializer) const {
  const auto found = roles.find(initializer);
  return found == roles.end() ? Role::constant : found->second;
}

Signature read_signature(const File& file) {
  check_is_not_rewritten(file);
  Signature signature;
  const std::string text = signature_text(file);
  if (text.empty()) {
    guess(signature, file);
    return signature;
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    add_line(signature, std::string_view(text).substr(at, end - at));
    at = end + 1;
  }
  find_missing(signature, file);
  note_changed(signature, file);
  return signature;
}

}  // namespace troupe::graph::onnx
