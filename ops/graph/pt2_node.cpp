#include "ops/graph/pt2_node.h"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "ops/graph/pt2_constants.h"
#include "ops/graph/shapes.h"
#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe::graph {
namespace {

/// The path of the innermost module in "key,path,class;key,path,class".
std::string module_of(std::string_view stack) {
  const auto last = stack.rfind(';');
  if (last != stack.npos) stack.remove_prefix(last + 1);
  const auto begin = stack.find(',');
  if (begin == stack.npos) return {};
  stack.remove_prefix(begin + 1);
  stack = stack.substr(0, stack.find(','));
  if (stack.find("_hook") != stack.npos) return {};      // nodes that export itself has added
  return std::string(stack.substr(0, stack.find('@')));  // "fc@1": the module's second call
}

/// The innermost line of a stack trace outside of PyTorch: "net.py, line 12".
std::string source_of(const std::string& trace) {
  std::istringstream lines(trace);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    const auto open = line.find("File \""), close = line.find("\", line ");
    if (open == line.npos || close == line.npos || close < open) continue;
    const std::string file = line.substr(open + 6, close - open - 6);
    if (file.find("torch/") != file.npos) continue;
    const std::string number = line.substr(close + 8, line.find(',', close + 8) - close - 8);
    result = fmt::format("{}, line {}", std::filesystem::path(file).filename().string(), number);
  }
  return printable(result);
}

/// "torch.ops.aten.relu_.default" as "relu.default", with whether it writes its input.
std::pair<std::string, bool> operator_of(std::string target) {
  constexpr std::string_view aten = "torch.ops.aten.";
  if (!target.starts_with(aten)) return {target, false};
  target.erase(0, aten.size());
  const auto dot = target.find('.');
  const bool in_place =  // "__or__" is not
      dot != target.npos && dot > 1 && target[dot - 1] == '_' && target[dot - 2] != '_';
  if (in_place) target.erase(dot - 1, 1);
  return {target, in_place};
}

}  // namespace

Pt2Node::Pt2Node(Pt2Context& context, const JsonAccess& json) : context_(context), json_(json) {
  std::tie(target_, in_place_) = operator_of(json.at("target").text());
  for (const JsonAccess& input : json.at("inputs").items())
    arguments_.emplace_back(input.at("name").text(), input.at("arg"));
  for (const JsonAccess& output : json.at("outputs").items()) {
    const auto [kind, value] = output.choice();
    if (kind == "as_tensor") outputs_.push_back(value.at("name").text());
    if (kind == "as_tensors")
      for (const JsonAccess& item : value.items()) outputs_.push_back(item.at("name").text());
    returns_sizes_ |= kind.starts_with("as_sym_");
  }
  origin_.name = outputs_.empty() ? target_ : outputs_.front();
  if (outputs_.size() > 1 && json.has("name")) origin_.name = json.at("name").text();  // "lstm"
  const JsonAccess metadata = json.at("metadata");
  if (metadata.has("nn_module_stack"))
    origin_.module = module_of(metadata.at("nn_module_stack").text());
  if (metadata.has("stack_trace")) origin_.source = source_of(metadata.at("stack_trace").text());
}

const JsonAccess* Pt2Node::find(std::string_view name) const {
  for (const auto& [known, argument] : arguments_)
    if (known == name) return argument.has("as_none") ? nullptr : &argument;
  return nullptr;
}

const JsonAccess& Pt2Node::at(std::string_view name) const {
  if (const JsonAccess* found = find(name)) return *found;
  for (const auto& [known, none] : arguments_)
    if (known == name) throw LacksOperator{fmt::format("its argument {} is None", name)};
  json_.fail(fmt::format("the argument '{}' is missing", name));
}

/// PyTorch's operators take several kinds of arguments, such as a number for a tensor.
JsonAccess Pt2Node::at(std::string_view name, const char* kind) const {
  const JsonAccess& argument = at(name);
  if (argument.has(kind)) return argument.at(kind);
  const auto plain = [](std::string_view text) {
    return text.substr(text.starts_with("as_") ? 3 : 0);
  };
  throw LacksOperator{fmt::format("its argument {} is of the kind {}, not {}", name,
                                  printable(plain(argument.choice().first)), plain(kind))};
}

bool Pt2Node::has(std::string_view name) const { return find(name) != nullptr; }

bool Pt2Node::is_tensor(std::string_view name) const {
  return has(name) && at(name).has("as_tensor");
}

ValueId Pt2Node::value_or_mask(std::string_view name) const {
  return context_.value(at(name, "as_tensor"));
}

ValueId Pt2Node::value(std::string_view name) const {
  const ValueId id = value_or_mask(name);
  if (context_.masks.contains(id))
    throw LacksOperator{"it reads random numbers, which are read as a part of a dropout only"};
  return id;
}

ValueId Pt2Node::optional_value(std::string_view name) const {
  return has(name) ? value(name) : ValueId{};
}

std::vector<ValueId> Pt2Node::values(std::string_view name) const {
  std::vector<ValueId> result;
  for (const JsonAccess& item : at(name, "as_tensors").items())
    result.push_back(context_.value(item));
  return result;
}

std::vector<ValueId> Pt2Node::optional_values(std::string_view name) const {
  if (at(name).has("as_tensors")) return values(name);
  std::vector<ValueId> result;
  for (const JsonAccess& item : at(name, "as_optional_tensors").items())
    result.push_back(item.has("as_none") ? ValueId{} : context_.value(item.at("as_tensor")));
  return result;
}

ValueId Pt2Node::buffer(std::string_view name) const {
  if (!is_tensor(name)) throw LacksOperator{"it keeps no running statistics"};
  return context_.buffer(at(name, "as_tensor"));
}

const std::string& Pt2Node::name_of(std::string_view name) const {
  return at(name, "as_tensor").at("name").text();
}

std::int64_t Pt2Node::integer(std::string_view name, std::optional<std::int64_t> otherwise) const {
  if (otherwise && !has(name)) return *otherwise;
  if (!at(name).has("as_sym_int")) return at(name, "as_int").integer();
  const Size size = context_.symbol(at(name, "as_sym_int"));
  if (size.per_sample != 0)
    throw LacksOperator{fmt::format("its argument {} depends on the size of the batch", name)};
  return size.fixed;
}

double Pt2Node::number(std::string_view name, std::optional<double> otherwise) const {
  if (otherwise && !has(name)) return *otherwise;
  const JsonAccess& argument = at(name);
  if (argument.has("as_float")) return argument.at("as_float").number();
  if (argument.has("as_bool")) return argument.at("as_bool").boolean() ? 1.0 : 0.0;
  return static_cast<double>(integer(name));
}

bool Pt2Node::boolean(std::string_view name, bool otherwise) const {
  return has(name) ? at(name, "as_bool").boolean() : otherwise;
}

std::string Pt2Node::text(std::string_view name, std::string_view otherwise) const {
  return has(name) ? at(name, "as_string").text() : std::string(otherwise);
}

std::vector<std::int64_t> Pt2Node::integers(std::string_view name,
                                            std::vector<std::int64_t> otherwise) const {
  if (!has(name)) return otherwise;
  if (at(name).has("as_int")) return {at(name, "as_int").integer()};
  std::vector<std::int64_t> result;
  for (const Size& size : sizes(name)) {
    if (size.per_sample != 0)
      throw LacksOperator{fmt::format("its argument {} depends on the size of the batch", name)};
    result.push_back(size.fixed);
  }
  return result;
}

Size Pt2Node::size(std::string_view name) const {
  if (at(name).has("as_sym_int")) return context_.symbol(at(name, "as_sym_int"));
  return {.fixed = at(name, "as_int").integer()};
}

Sizes Pt2Node::sizes(std::string_view name) const {
  Sizes result;
  if (at(name).has("as_sym_ints"))
    for (const JsonAccess& item : at(name, "as_sym_ints").items())
      result.push_back(context_.symbol(item));
  else
    for (const JsonAccess& item : at(name, "as_ints").items())
      result.push_back({.fixed = item.integer()});
  return result;
}

std::size_t Pt2Node::axis(std::string_view name, std::int64_t otherwise, std::size_t rank) const {
  return static_cast<std::size_t>(axis_of(integer(name, otherwise), rank));
}

ValueId Pt2Node::reshaped(ValueId x, const Sizes& to) const {
  const Sizes sizes = resolved(to, shape(x));
  return sizes == shape(x) ? x : add(Reshape{sizes}, {x});
}

void Pt2Node::give(ValueId result) const {
  if (outputs_.size() != 1) json_.fail("one output is expected");
  if (in_place_ && !arguments_.empty() && arguments_.front().second.has("as_tensor")) {
    const std::string& written = name_of(arguments_.front().first);
    if (context_.is_stored(written))
      throw LacksOperator{fmt::format("it overwrites {}, which no node has made", written)};
    return context_.overwrite(written, outputs_.front(), result);
  }
  context_.name(outputs_.front(), result);
}

void Pt2Node::give_all(const std::vector<ValueId>& results) const {
  if (outputs_.size() != results.size())
    json_.fail(fmt::format("{} outputs are expected", results.size()));
  for (std::size_t i = 0; i < results.size(); ++i) context_.name(outputs_[i], results[i]);
}

void Pt2Node::give_view(ValueId result, std::string_view of) const {
  give(result);
  context_.share(name_of(of), outputs_.front());
}

ValueId Pt2Node::add(Operator operation, std::vector<ValueId> inputs) const {
  const ValueId known = fold(*this, operation, inputs);
  if (known.index >= 0) return known;
  Graph& graph = context_.builder.graph;
  const DType dtype = inputs.empty() ? DType::f32 : graph.value(inputs[0]).dtype;
  const bool moves = moves_elements(operation);
  const ValueId result = context_.builder.add(std::move(operation), std::move(inputs), origin_);
  if (moves) graph.values[static_cast<std::size_t>(result.index)].dtype = dtype;
  return result;
}

}  // namespace troupe::graph
