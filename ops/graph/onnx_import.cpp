#include "ops/graph/onnx_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ops/graph/onnx_shape_rules.h"
#include "runtime/text.h"

namespace troupe::graph::onnx {
namespace {

[[noreturn]] void refuse(const File& file, const std::string& what) {
  throw Error(ErrorCode::unsupported, fmt::format("{}: {}", file.origin, what), onnx_export_line);
}

/// The shape of the model's input: the batch, then fixed sizes.
Sizes input_shape(const File& file, const onnx_wire::ValueInfo& input) {
  Sizes sizes;
  for (const auto& dim : input.type().tensor_type().shape().dim()) {
    if (sizes.empty()) {
      if (dim.has_dim_value())
        refuse(file, fmt::format("its batch has the fixed size {}", dim.dim_value()));
      sizes.push_back({0, 1});
      continue;
    }
    if (!dim.has_dim_value() || dim.dim_value() <= 0)
      refuse(file, fmt::format("axis {} of its input '{}' has no fixed size", sizes.size(),
                               printable(input.name())));
    sizes.push_back(fixed(dim.dim_value()));
  }
  if (sizes.empty() || sizes.size() > Shape::max_rank)
    refuse(file, fmt::format("its input '{}' has {} axes", printable(input.name()), sizes.size()));
  if (!can_exist(sizes))
    refuse(file, fmt::format("its input '{}' is {}, which is too large", printable(input.name()),
                             to_string(sizes)));
  return sizes;
}

bool is_fixed_shape(const Numbers& sizes) {
  return std::ranges::all_of(sizes.integers, [](const Size& size) { return is_fixed(size); });
}

}  // namespace

Import::Import(const File& file) : file_(file), signature_(read_signature(file)) {
  for (const StoredTensor& tensor : file.initializers) {
    initializers_[tensor.name] = &tensor;
    keys_[tensor.name] = tensor.name;
  }
  for (const auto* infos : {&file.model.graph().value_info(), &file.model.graph().output()})
    for (const auto& info : *infos) stated_[info.name()] = &info;
  for (const auto& [name, of] : signature_.tied) keys_[of] = std::min(keys_[of], name);
}

Graph Import::run() {
  add_input();
  for (const auto& node : file_.model.graph().node()) read_node(node);
  finish();
  return std::move(graph_);
}

void Import::add_input() {
  std::vector<const onnx_wire::ValueInfo*> inputs;
  for (const auto& input : file_.model.graph().input())
    if (!initializers_.contains(input.name())) inputs.push_back(&input);
  const int outputs = file_.model.graph().output_size();
  if (inputs.size() != 1 || outputs != 1)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{}: has {} and {}; Troupe trains models with one of each", file_.origin,
                    counted(static_cast<std::int64_t>(inputs.size()), "input"),
                    counted(outputs, "output")),
        "export a module with one tensor as its input and one as its result");
  const onnx_wire::ValueInfo& input = *inputs.front();
  onnx_wire::Node none;
  none.set_op_type("input");
  none.set_name(input.name());
  Value value{.kind = Value::Kind::input, .name = input.name()};
  value.dtype = cast_type(NodeView(none, file_.origin), input.type().tensor_type().elem_type());
  value.shape = input_shape(file_, input);
  graph_.input = add_value(std::move(value));
  known_[input.name()] = Known{.value = graph_.input};
}

ValueId Import::add_value(Value value) {
  graph_.values.push_back(std::move(value));
  return {static_cast<int>(graph_.values.size()) - 1};
}

Known* Import::find(const NodeView& node, const std::string& name) {
  if (const auto found = known_.find(name); found != known_.end()) return &found->second;
  const auto stored = initializers_.find(name);
  if (stored == initializers_.end()) return nullptr;
  const bool is_trained = signature_.role_of(name) == Signature::Role::parameter;
  if (is_trained)
    return &(known_[name] = initializer(node, *stored->second, Value::Kind::parameter));
  return &(known_[name] = Known{.numbers = std::make_shared<const Numbers>(
                                    numbers_of(node, *stored->second, budget_))});
}

Known Import::initializer(const NodeView& node, const StoredTensor& tensor, Value::Kind kind) {
  if (!is_floating(tensor.dtype))
    node.refuse(fmt::format("its parameter '{}' has elements of {}", printable(tensor.name),
                            troupe::name_of(tensor.dtype)));
  Value value{.kind = kind, .name = keys_.at(tensor.name), .dtype = tensor.dtype};
  value.trainable = kind == Value::Kind::parameter;
  value.shape = sizes_of(tensor.shape);
  return Known{.value = add_value(std::move(value))};
}

void Import::read_node(const onnx_wire::Node& node) {
  Call call(*this, node);
  try {
    if (!node.domain().empty() && node.domain() != "ai.onnx")
      call.refuse(fmt::format("it is of the domain '{}'", printable(node.domain())));
    apply(call);
  } catch (const NodeRefused& refused) {
    graph_.lacking.push_back({printable(call.operation()), printable(call.name()),
                              printable(call.module()), printable(call.source()), refused.reason(),
                              refused.own_remedy()});
    skip(call);
  } catch (const ReadsLacking&) {
    skip(call);
  }
}

/// Gives the results of a node that Troupe lacks the shapes that the file states, so that the nodes
/// behind it can be read.
void Import::skip(Call& call) {
  for (int i = 0; i < call.input_count(); ++i)
    if (const auto found = known_.find(call.input(i)); found != known_.end())
      read_by_lacking_.push_back(found->second.value);
  for (int i = 0; i < call.output_count(); ++i) {
    const auto info = stated_.find(call.output(i));
    const auto shape = info == stated_.end() ? std::nullopt : stated_shape(*info->second);
    if (known_.contains(call.output(i))) continue;
    call.give(i,
              shape ? Known{.value = stated_value(*info->second, *shape)} : Known{.lacks = true});
  }
}

std::optional<Sizes> Import::stated_shape(const onnx_wire::ValueInfo& info) const {
  const auto& tensor = info.type().tensor_type();
  Sizes sizes;
  for (const auto& dim : tensor.shape().dim()) {
    const bool is_batch = !dim.has_dim_value() && !dim.dim_param().empty() && sizes.empty();
    if (!is_batch && (!dim.has_dim_value() || dim.dim_value() <= 0)) return std::nullopt;
    sizes.push_back(is_batch ? Size{0, 1} : fixed(dim.dim_value()));
  }
  if (sizes.size() > Shape::max_rank || !info.type().has_tensor_type() || !can_exist(sizes))
    return std::nullopt;
  return sizes;
}

ValueId Import::stated_value(const onnx_wire::ValueInfo& info, Sizes shape) {
  return add_value({.name = info.name(), .shape = std::move(shape)});
}

void Import::apply(Call& call) {
  bool all_known = true;
  for (int i = 0; i < call.input_count(); ++i)
    if (call.has_input(i)) all_known = all_known && call.known(i).numbers;
  const std::string& operation = call.operation();
  const bool is_expand = operation == "Expand";
  const bool grows =  // as the zeros of empty_like and of new_empty
      (is_expand || operation == "ConstantOfShape") && all_known &&
      !is_fixed_shape(call.needed_numbers(is_expand ? 1 : 0));
  const bool is_alike =
      operation == "CastLike" && call.has_input(1) && call.is_known(0) && !call.is_known(1);
  if ((operation == "Shape" || is_alike || (all_known && !grows)) && evaluate_node(call)) return;
  const Handler handler = find_handler(operation);
  if (!handler) call.refuse("");
  handler(call);
}

bool Import::evaluate_node(Call& call) {
  if (call.operation() == "Shape") {
    const Known& input = call.known(0);
    if (!input.numbers && input.value.index < 0) call.damaged("its input is a sequence");
    const Sizes whole = input.numbers ? sizes_of(input.numbers->shape) : call.shape(input.value);
    const auto rank = static_cast<std::int64_t>(whole.size());
    const auto within = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    const std::int64_t start = within(call.integer("start", 0));
    const std::int64_t end = std::max(start, within(call.integer("end", rank)));
    Numbers result = budget_.make(call, DType::i64, {end - start});
    std::copy(whole.begin() + start, whole.begin() + end, result.integers.begin());
    call.give(std::move(result));
    return true;
  }
  std::vector<const Numbers*> inputs;
  inputs.reserve(static_cast<std::size_t>(call.input_count()));
  for (int i = 0; i < call.input_count(); ++i) inputs.push_back(call.numbers(i));
  Numbers like;
  if (call.operation() == "CastLike" && call.input_count() < 2) call.damaged("it needs two inputs");
  if (call.operation() == "CastLike" && !inputs[1]) {
    const bool is_value = call.known(1).value.index >= 0;  // parts of layers are f32
    like.dtype = is_value ? call.at(call.value(1)).dtype : DType::f32;
    inputs[1] = &like;
  }
  auto result = evaluate(call, inputs, budget_);
  if (result) call.give(std::move(*result));
  return result.has_value();
}

void Import::finish() {
  const auto& output = file_.model.graph().output(0);
  const auto found = known_.find(output.name());
  if (found != known_.end() && found->second.lacks)
    found->second.value = stated_value(output, stated_shape(output).value_or(Sizes{}));
  if (found == known_.end() || found->second.value.index < 0 || found->second.numbers)
    refuse(file_,
           fmt::format("its output '{}' does not depend on its input", printable(output.name())));
  graph_.output = found->second.value;
  keep_needed();
  add_parameters_of_lacking();
  add_weights();
  add_constants();
  graph_.folds_constants = true;
  graph_.notes = signature_.notes;
  note_missing_dropout();
}

/// In evaluation mode the export leaves dropout out. Only a batch norm shows the mode.
void Import::note_missing_dropout() {
  const bool shows_mode = std::ranges::any_of(graph_.nodes, [](const Node& node) {
    const auto* attention = std::get_if<Attention>(&node.operation);
    return std::holds_alternative<BatchNorm>(node.operation) ||
           std::holds_alternative<Dropout>(node.operation) || (attention && attention->dropout > 0);
  });
  if (shows_mode || !graph_.lacking.empty()) return;
  graph_.notes.push_back(fmt::format(
      "{} has no dropout; if the module has, call net.train() and export it again", file_.origin));
}

/// Removes nodes that the output does not need, and values that no node uses. An example is the
/// transposition of a weight, because Linear takes the weight without it.
void Import::keep_needed() {
  std::vector<bool> needed(graph_.values.size(), false);
  const auto need = [&](ValueId id) {
    if (id.index >= 0) needed[static_cast<std::size_t>(id.index)] = true;
  };
  need(graph_.input);
  need(graph_.output);
  std::ranges::for_each(read_by_lacking_, need);
  std::vector<Node> nodes;
  for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
    if (!needed[static_cast<std::size_t>(node->output.index)]) continue;
    std::ranges::for_each(node->inputs, need);
    nodes.push_back(std::move(*node));
  }
  std::vector<ValueId> renamed(graph_.values.size());
  std::vector<Value> values;
  for (std::size_t i = 0; i < needed.size(); ++i)
    if (needed[i]) {
      renamed[i] = {static_cast<int>(values.size())};
      values.push_back(std::move(graph_.values[i]));
    }
  const auto rename = [&](ValueId& id) {
    if (id.index >= 0) id = renamed[static_cast<std::size_t>(id.index)];
  };
  for (Node& node : nodes) {
    std::ranges::for_each(node.inputs, rename);
    rename(node.output);
  }
  rename(graph_.input);
  rename(graph_.output);
  graph_.nodes.assign(std::make_move_iterator(nodes.rbegin()),
                      std::make_move_iterator(nodes.rend()));
  graph_.values = std::move(values);
}

/// The nodes that were left out read parameters too.
void Import::add_parameters_of_lacking() {
  if (graph_.lacking.empty()) return;
  std::set<std::string> known;
  for (const Value& value : graph_.values) known.insert(value.name);
  for (const StoredTensor& tensor : file_.initializers) {
    const bool is_trained = signature_.role_of(tensor.name) == Signature::Role::parameter;
    const std::string& key = keys_.at(tensor.name);
    if (!is_trained || !is_floating(tensor.dtype) || !known.insert(key).second) continue;
    add_value({.kind = Value::Kind::parameter,
               .name = key,
               .dtype = tensor.dtype,
               .shape = sizes_of(tensor.shape)});
  }
}

/// Parameters and running statistics by their keys, and counters, which the export leaves out.
void Import::add_weights() {
  std::map<std::string, StoredTensor> stored;
  std::set<std::string> used;
  for (const Value& value : graph_.values)
    if (value.kind == Value::Kind::parameter || value.kind == Value::Kind::buffer)
      used.insert(value.name);
  for (const StoredTensor& tensor : file_.initializers)
    if (const std::string& key = keys_.at(tensor.name); used.contains(key)) {
      stored[key] = tensor;
      graph_.weights.tensors.push_back({key, tensor.dtype, tensor.shape});
    }
  for (const Node& node : graph_.nodes)
    if (const auto* norm = std::get_if<BatchNorm>(&node.operation))
      if (!norm->counter.empty() && !stored.contains(norm->counter)) {
        onnx_wire::Tensor zero;
        zero.add_int64_data(0);
        stored[norm->counter] = {.name = norm->counter, .dtype = DType::i64, .typed = zero};
        graph_.weights.tensors.push_back({norm->counter, DType::i64, {}});
      }
  graph_.weights.read = [owner = file_.owner, stored = std::move(stored)](const std::string& name) {
    const auto found = stored.find(name);
    if (found == stored.end())
      throw Error(ErrorCode::internal, fmt::format("the model has no tensor '{}'", name));
    return read_tensor(found->second);
  };
}

/// Other names of tied parameters, and what of the state_dict no node trains.
void Import::add_constants() {
  std::set<std::string> trained;
  for (const TensorInfo& info : graph_.weights.tensors) trained.insert(info.name);
  const auto add_alias = [&](const std::string& name, const std::string& key) {
    if (name != key && trained.contains(key)) graph_.aliases.push_back({name, key});
  };
  for (const auto& [initializer, key] : keys_) add_alias(initializer, key);
  for (const auto& [name, of] : signature_.tied) add_alias(name, keys_.at(of));
  for (const StoredTensor& tensor : file_.initializers) {
    const bool in_state = signature_.roles.contains(tensor.name) &&
                          signature_.role_of(tensor.name) != Signature::Role::constant &&
                          !signature_.transient.contains(tensor.name);
    if (in_state && !trained.contains(keys_.at(tensor.name)))
      graph_.constants.push_back({tensor.name, read_tensor(tensor)});
  }
}

Handler find_handler(std::string_view operation) {
  for (const auto handlers : {layer_handlers(), movement_handlers(), elementwise_handlers()})
    for (const auto& [name, handler] : handlers)
      if (name == operation) return handler;
  return nullptr;
}

}  // namespace troupe::graph::onnx
