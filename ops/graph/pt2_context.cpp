#include "ops/graph/pt2_context.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/graph/pt2_expression.h"
#include "ops/graph/shapes.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"

namespace troupe::graph {
namespace {

/// Calls `f` with the names of all tensors that a node reads.
template <class F>
void for_each_input(const JsonAccess& node, F&& f) {
  const auto give = [&](const JsonAccess& tensor) {
    if (tensor.has("name")) f(tensor.at("name").text());
  };
  for (const JsonAccess& input : node.at("inputs").items()) {
    const auto [kind, argument] = input.at("arg").choice();
    if (kind == "as_tensor") give(argument);
    if (kind == "as_tensors" || kind == "as_optional_tensors")
      for (const JsonAccess& item : argument.items())
        give(kind == "as_tensors" ? item : item.choice().second);
  }
}

}  // namespace

Pt2Context::Pt2Context(std::shared_ptr<const Pt2File> file)
    : file_(std::move(file)),
      graph_(JsonAccess(file_->model(), file_->origin()).at("graph_module").at("graph")) {
  for (const auto& [name, tensor] : file_->weights()) canonical_.emplace(tensor.elements(), name);
  std::set<std::string> seen;
  for (const auto* stored : {&file_->weights(), &file_->constants()})
    for (const auto& [name, tensor] : *stored)
      if (seen.insert(tensor.elements()).second) made_left_ += tensor.shape.element_count();
}

ValueId Pt2Context::value(const JsonAccess& json) {
  const std::string& name = json.at("name").text();
  if (stale_.contains(name))
    throw LacksOperator{
        fmt::format("it reads {}, whose memory an operation has overwritten through "
                    "a view",
                    name)};
  if (counters_.contains(name))
    throw LacksOperator{fmt::format("it reads {}, which the model counts up", name)};
  if (const auto found = names_.find(name); found != names_.end()) {
    const ValueId id = found->second;
    if (id.index >= 0 && builder.graph.value(id).kind == Value::Kind::buffer)
      throw LacksOperator{fmt::format("it reads the running statistic {}", name)};
    return id;
  }
  if (!entries_.contains(name)) json.fail(fmt::format("no node before it makes '{}'", name));
  return enter(name, false);
}

ValueId Pt2Context::buffer(const JsonAccess& json) {
  const std::string& name = json.at("name").text();
  const auto entry = entries_.find(name);
  if (entry == entries_.end() || entry->second.kind != Entry::Kind::buffer)
    throw LacksOperator{"its running statistics are not buffers of the module"};
  if (const auto found = names_.find(name); found != names_.end()) {
    if (builder.graph.value(found->second).kind != Value::Kind::buffer)
      throw LacksOperator{"its running statistics are also read elsewhere"};
    return found->second;
  }
  return enter(name, true);
}

/// Of tied tensors the first by name stands for all.
const std::string& Pt2Context::canonical(const Pt2Tensor& tensor) const {
  return canonical_.at(tensor.elements());
}

ValueId Pt2Context::enter(const std::string& name, bool as_buffer) {
  const Entry& entry = entries_.at(name);
  const Pt2Tensor& tensor = *entry.tensor;
  if (entry.kind != Entry::Kind::parameter && !as_buffer) {
    const auto [known, is_new] = stored_.try_emplace(tensor.elements());
    if (is_new) known->second = constant(tensor.name, file_->read(tensor));
    return names_[name] = known->second;
  }
  const std::string key = canonical(tensor);
  if (const auto known = by_key_.find(key); known != by_key_.end())
    return names_[name] = known->second;
  if (!is_floating(tensor.dtype))
    throw LacksOperator{fmt::format("{} has elements of {}", key, troupe::name_of(tensor.dtype))};
  const ValueId id =
      builder.add_value({.kind = as_buffer ? Value::Kind::buffer : Value::Kind::parameter,
                         .name = key,
                         .dtype = tensor.dtype,
                         .shape = sizes_of(tensor.shape),
                         .constant = {},
                         .trainable = tensor.trainable});
  by_key_[key] = id;
  return names_[name] = id;
}

ValueId Pt2Context::constant(std::string name, const Tensor& tensor) {
  Tensor converted = widest(tensor);
  return builder.add_value(
      {.kind = Value::Kind::constant,
       .name = std::move(name),
       .dtype = tensor.dtype() == DType::boolean ? DType::boolean : converted.dtype(),
       .shape = sizes_of(tensor.shape()),
       .constant = std::move(converted)});
}

void Pt2Context::take_made(std::int64_t elements) {
  if (elements > made_left_)
    throw LacksOperator{
        fmt::format("it makes {} elements; for all constants of the file, {} are left", elements,
                    made_left_),
        "make large constants buffers of the module"};
  made_left_ -= elements;
}

void Pt2Context::take_nodes(std::int64_t count) {
  if (count > nodes_left_)
    throw LacksOperator{fmt::format(
        "it becomes {} nodes; for all operators of the file, {} are left", count, nodes_left_)};
  nodes_left_ -= count;
}

bool Pt2Context::is_stored(const std::string& name) const {
  const auto shared = memory_.find(name);
  return entries_.contains(shared == memory_.end() ? name : shared->second);
}

bool Pt2Context::is_view(const std::string& name) const {
  const auto shared = memory_.find(name);
  return shared != memory_.end() && shared->second != name;
}

void Pt2Context::share(const std::string& input, const std::string& output) {
  const auto shared = memory_.find(input);
  memory_[output] = shared == memory_.end() ? input : shared->second;
}

void Pt2Context::overwrite(const std::string& name, const std::string& output, ValueId value) {
  const auto shared = memory_.find(name);
  const std::string memory = shared == memory_.end() ? name : shared->second;
  if (memory != name) stale_.insert(memory);
  for (const auto& [other, of] : memory_)
    if (of == memory && other != name) stale_.insert(other);
  names_[name] = names_[output] = value;
  memory_[output] = memory;
  stale_.erase(name);
  stale_.erase(output);
}

Size Pt2Context::size(const JsonAccess& json) const {
  const auto [kind, value] = json.choice();
  if (kind == "as_int") return fixed(value.integer());
  if (kind != "as_expr") json.fail("a size is expected");
  return size_of_expression(value.at("expr_str").text(), batch_symbol_, json.where());
}

Size Pt2Context::symbol(const JsonAccess& json) const {
  const auto [kind, value] = json.choice();
  if (kind == "as_int") return fixed(value.integer());
  if (kind != "as_name") json.fail("a size is expected");
  return size(graph_.at("sym_int_values").at(value.text().c_str()));
}

Sizes Pt2Context::stated_shape(const std::string& name) const {
  const JsonAccess stated = graph_.at("tensor_values").at(name.c_str()).at("sizes");
  Sizes sizes;
  for (const JsonAccess& item : stated.items()) sizes.push_back(size(item));
  if (!can_exist(sizes)) stated.fail(fmt::format("no tensor is {}", to_string(sizes)));
  return sizes;
}

DType Pt2Context::stated_dtype(const std::string& name) const {
  return dtype_of_number(graph_.at("tensor_values").at(name.c_str()));
}

bool Pt2Context::counts_up(const std::string& name, const std::string& output) {
  const auto entry = entries_.find(name);
  const bool is_counter = entry != entries_.end() && entry->second.kind == Entry::Kind::buffer &&
                          entry->second.tensor->dtype == DType::i64 &&
                          entry->second.tensor->shape.rank() == 0;
  if (!counters_.contains(name) && (!is_counter || names_.contains(name))) return false;
  counters_.insert({name, output});
  return true;
}

std::string Pt2Context::read_signature() {
  const JsonAccess signature =
      JsonAccess(file_->model(), file_->origin()).at("graph_module").at("signature");
  for (const JsonAccess& spec : signature.at("input_specs").items()) {
    const auto [kind, entry] = spec.choice();
    if (kind == "user_input")
      read_input(entry);
    else
      add_entry(kind, entry);
  }
  if (builder.graph.input.index < 0) signature.fail("the model has no input");
  const auto outputs = signature.at("output_specs").items();
  std::vector<JsonAccess> tensors;
  for (const JsonAccess& output : outputs) {
    const auto [kind, entry] = output.choice();
    if (kind != "user_output")
      throw Error(ErrorCode::bad_file,
                  fmt::format("{}: the graph has an output of the kind {}, as after "
                              "run_decompositions()",
                              file_->origin(), kind),
                  torch_export_line);
    tensors.push_back(entry.at("arg"));
  }
  if (tensors.size() != 1 || !tensors[0].has("as_tensor"))
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: the model returns {} values", file_->origin(), tensors.size()),
                "export a module that returns one tensor, such as the logits");
  return tensors[0].at("as_tensor").at("name").text();
}

void Pt2Context::add_entry(const std::string& kind, const JsonAccess& spec) {
  Entry entry;
  std::string key;
  if (kind == "parameter") {
    key = spec.at("parameter_name").text();
  } else if (kind == "buffer") {
    entry.kind = Entry::Kind::buffer;
    key = spec.at("buffer_name").text();
    entry.persistent = !spec.has("persistent") || spec.at("persistent").boolean();
  } else if (kind == "tensor_constant") {
    entry.kind = Entry::Kind::literal;
    key = spec.at("tensor_constant_name").text();
  } else {
    spec.fail(fmt::format("an input of the kind {} is not known", kind));
  }
  const auto& from = entry.kind == Entry::Kind::literal || !entry.persistent ? file_->constants()
                                                                             : file_->weights();
  const auto tensor = from.find(key);
  if (tensor == from.end()) spec.fail(fmt::format("the file lacks the tensor '{}'", key));
  entry.tensor = &tensor->second;
  const std::string& name = spec.at("arg").at("name").text();
  if (entries_.insert_or_assign(name, entry).second) order_.push_back(name);
}

void Pt2Context::read_input(const JsonAccess& spec) {
  const JsonAccess arg = spec.at("arg");
  if (!arg.has("as_tensor") || builder.graph.input.index >= 0)
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: the model has several inputs, or one that is not a tensor",
                            file_->origin()),
                "export a module with one tensor as its input");
  add_input(arg.at("as_tensor").at("name").text());
}

void Pt2Context::add_input(const std::string& name) {
  const JsonAccess sizes = graph_.at("tensor_values").at(name.c_str()).at("sizes");
  const auto items = sizes.items();
  if (!items.empty() && items[0].has("as_expr"))
    batch_symbol_ = symbol_of(items[0].at("as_expr").at("expr_str").text());
  if (batch_symbol_.empty())
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: the first size of the input is fixed, so the model takes batches "
                            "of one size only",
                            file_->origin()),
                torch_export_line);
  Value input{.kind = Value::Kind::input, .name = name, .dtype = stated_dtype(name)};
  input.shape = stated_shape(name);
  if (!has_batch_axis(input.shape))
    sizes.fail("a size besides that of the batch is dynamic; make the first size alone dynamic");
  builder.graph.input = names_[name] = builder.add_value(std::move(input));
}

void Pt2Context::finish(const std::string& output) {
  const auto found = names_.find(output);
  if (found == names_.end()) graph_.fail(fmt::format("no node makes the output '{}'", output));
  if (masks.contains(found->second)) graph_.fail("the model returns random numbers");
  builder.graph.output = found->second;
  list_lacking();
  add_counters();
  add_weights();
  forget_unread_constants();
}

void Pt2Context::leave_out(const JsonAccess& json, Lacking lacking,
                           const std::vector<std::string>& outputs, bool writes_memory) {
  LeftOut left{.lacking = std::move(lacking), .writes_memory = writes_memory || outputs.empty()};
  for_each_input(json, [&](const std::string& name) {
    if (const auto known = names_.find(name); known != names_.end())
      left.inputs.insert(known->second);
  });
  for (const std::string& output : outputs) {
    const ValueId id = builder.add_value({.kind = Value::Kind::computed,
                                          .name = output,
                                          .dtype = stated_dtype(output),
                                          .shape = stated_shape(output)});
    left.outputs.insert(id);
    name(output, id);
  }
  left_out_.push_back(std::move(left));
}

void Pt2Context::list_lacking() {
  Graph& graph = builder.graph;
  std::map<ValueId, std::vector<ValueId>> inputs;  // by what is computed from them
  std::vector<ValueId> open{graph.output};
  for (const Node& node : graph.nodes) inputs[node.output] = node.inputs;
  for (const LeftOut& left : left_out_) {
    for (const ValueId output : left.outputs)
      inputs[output] = {left.inputs.begin(), left.inputs.end()};
    if (left.writes_memory) open.insert(open.end(), left.inputs.begin(), left.inputs.end());
  }
  std::set<ValueId> needed;
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (needed.insert(id).second) open.insert(open.end(), inputs[id].begin(), inputs[id].end());
  }
  for (LeftOut& left : left_out_)
    if (left.writes_memory ||
        std::ranges::any_of(left.outputs, [&](ValueId output) { return needed.contains(output); }))
      graph.lacking.push_back(std::move(left.lacking));
}

/// Those of which others were computed would stay in memory to the end of the run.
void Pt2Context::forget_unread_constants() {
  Graph& graph = builder.graph;
  std::set<int> read{graph.output.index};
  for (const Node& node : graph.nodes)
    for (const ValueId input : node.inputs) read.insert(input.index);
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    if (!read.contains(static_cast<int>(i))) graph.values[i].constant = {};
}

/// Each batch norm's counter lies beside its running mean.
void Pt2Context::add_counters() {
  Graph& graph = builder.graph;
  for (Node& node : graph.nodes)
    if (auto* norm = std::get_if<BatchNorm>(&node.operation)) {
      const std::string& mean = graph.value(node.inputs[3]).name;
      const std::string key = mean.substr(0, mean.rfind('.') + 1) + "num_batches_tracked";
      const auto counter = file_->weights().find(key);
      if (counter != file_->weights().end() && counter->second.dtype == DType::i64)
        norm->counter = key;
    }
}

/// The first names of the parameters that no node of the file reads.
std::set<std::string> Pt2Context::unread_parameters() const {
  std::set<std::string> named, read, unread;
  for (const JsonAccess& node : graph_.at("nodes").items())
    for_each_input(node, [&](const std::string& name) { named.insert(name); });
  for (const auto& [name, entry] : entries_)
    if (entry.kind == Entry::Kind::parameter)
      (named.contains(name) ? read : unread).insert(canonical(*entry.tensor));
  for (const std::string& name : read) unread.erase(name);  // tied to an unread one
  return unread;
}

/// What the state_dict holds besides the parameters and buffers of the graph: other names of these,
/// and tensors that no node reads or that are constants here.
void Pt2Context::add_weights() {
  Graph& graph = builder.graph;
  if (!graph.lacking.empty())  // the nodes that were left out read parameters too
    for (const std::string& name : order_)
      if (const Entry& entry = entries_.at(name);
          entry.kind == Entry::Kind::parameter && is_floating(entry.tensor->dtype))
        if (!names_.contains(name)) enter(name, false);
  std::set<std::string> counters;
  std::map<std::string, Tensor> constants;  // tied ones are read once
  for (const Node& node : graph.nodes)
    if (const auto* norm = std::get_if<BatchNorm>(&node.operation)) counters.insert(norm->counter);
  const std::set<std::string> unread = unread_parameters();
  for (const auto& [name, tensor] : file_->weights()) {
    if (unread.contains(canonical(tensor))) graph.unread.insert(name);
    if (by_key_.contains(name) || counters.contains(name)) {
      graph.weights.tensors.push_back({name, tensor.dtype, tensor.shape});
    } else if (const std::string& of = canonical(tensor); by_key_.contains(of)) {
      graph.aliases.push_back({name, of});
    } else {
      auto& constant = constants[of];
      if (!constant.defined()) constant = file_->read(tensor);
      graph.constants.push_back({name, constant});
    }
  }
  graph.weights.read = [file = file_](const std::string& name) {
    const auto found = file->weights().find(name);
    if (found == file->weights().end())
      throw Error(ErrorCode::internal, fmt::format("{} has no tensor {}", file->origin(), name));
    return file->read(found->second);
  };
}

}  // namespace troupe::graph
