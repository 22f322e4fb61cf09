#include <fmt/format.h>

#include "ops/graph/onnx_import.h"
#include "ops/graph/onnx_shape_rules.h"
#include "runtime/text.h"

namespace troupe::graph::onnx {

Call::Call(Import& import, const onnx_wire::Node& node)
    : NodeView(node, import.file_.origin), import_(import) {}

Known& Call::meaning(int index) const {
  if (!has_input(index)) damaged(fmt::format("its input {} is missing", index + 1));
  Known* found = import_.find(*this, input(index));
  if (!found)
    damaged(fmt::format("no node before it makes its input '{}'", printable(input(index))));
  if (found->lacks) throw ReadsLacking{};
  return *found;
}

const Known& Call::known(int index) const { return meaning(index); }

const Numbers* Call::numbers(int index) const {
  return has_input(index) ? known(index).numbers.get() : nullptr;
}

const Numbers& Call::needed_numbers(int index) const {
  known(index);
  if (const Numbers* found = numbers(index)) return *found;
  refuse(fmt::format("its input {} ('{}') depends on the data", index + 1, printable(input(index))),
         "make it a constant of the model");
}

ValueId Call::value(int index) {
  Known& found = meaning(index);
  if (found.numbers && found.value.index < 0) {
    const std::shared_ptr<const Numbers> numbers = found.numbers;
    const ValueId made = constant(*numbers);
    import_.graph_.values.back().name = input(index);
    meaning(index).value = made;
    return made;
  }
  if (found.gelu)
    refuse(
        fmt::format("it reads the error function or the cube '{}', which are read as parts of "
                    "a GELU only",
                    printable(input(index))));
  if (found.dropout)
    refuse(fmt::format("it reads the random numbers '{}', which are read as a part of Dropout only",
                       printable(input(index))));
  if (found.value.index < 0) damaged(fmt::format("its input {} is a sequence", index + 1));
  if (at(found.value).kind == Value::Kind::buffer)
    refuse(fmt::format("it reads the running statistic '{}'", printable(input(index))));
  return found.value;
}

ValueId Call::buffer(int index) {
  const auto initializer = import_.initializers_.find(input(index));
  if (initializer == import_.initializers_.end())
    refuse("its running statistics are not tensors of the file",
           "use BatchNorm2d with track_running_stats=True");
  const auto found = import_.known_.find(input(index));
  if (found == import_.known_.end())
    return (import_.known_[input(index)] =
                import_.initializer(*this, *initializer->second, Value::Kind::buffer))
        .value;
  if (found->second.value.index < 0 || at(found->second.value).kind != Value::Kind::buffer)
    refuse("its running statistics are also read by another operation");
  return found->second.value;
}

const Value& Call::at(ValueId id) const { return import_.graph_.value(id); }

const Node* Call::producer(ValueId id) const {
  const auto found = import_.producers_.find(id.index);
  return found == import_.producers_.end() ? nullptr : &import_.graph_.nodes[found->second];
}

namespace {

/// The path of the module that a parameter belongs to, which is that of a node without metadata.
std::string module_of(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return parameter.substr(0, dot == parameter.npos ? 0 : dot);
}

}  // namespace

ValueId Call::add(Operator operation, std::vector<ValueId> inputs) {
  std::vector<const Sizes*> shapes;
  for (const ValueId id : inputs) shapes.push_back(id.index < 0 ? nullptr : &shape(id));
  Value result{.name = name()};
  try {
    result.shape = shape_of(operation, shapes);
  } catch (const Error& error) {  // of a damaged file, or of a use that Troupe does not have
    refuse(error.message());
  }
  const bool same_elements =
      std::holds_alternative<Reshape>(operation) || std::holds_alternative<Expand>(operation);
  if (same_elements && result.shape == *shapes[0]) return inputs[0];
  result.dtype = at(inputs[0]).dtype;
  Node node{std::move(operation), std::move(inputs), {}, name(), module(), source()};
  for (const ValueId id : node.inputs)
    if (!has_module() && node.module.empty() && id.index >= 0 &&
        at(id).kind == Value::Kind::parameter)
      node.module = module_of(at(id).name);
  node.output = import_.add_value(std::move(result));
  import_.producers_[node.output.index] = import_.graph_.nodes.size();
  import_.graph_.nodes.push_back(std::move(node));
  return import_.graph_.nodes.back().output;
}

ValueId Call::constant(const Numbers& numbers) {
  auto tensor = tensor_of(numbers);
  if (!tensor) refuse("it takes the number of samples as a tensor");
  Value value{.kind = Value::Kind::constant, .name = name()};
  value.dtype = numbers.dtype == DType::boolean ? DType::boolean : tensor->dtype();
  value.shape = sizes_of(numbers.shape);
  value.constant = std::move(*tensor);
  return import_.add_value(std::move(value));
}

AddNode adder(Call& call) {
  return [&call](Operator operation, std::vector<ValueId> inputs) {
    return call.add(std::move(operation), std::move(inputs));
  };
}

Budget& Call::budget() { return import_.budget_; }

const std::string& Call::counter_of(const std::string& running_mean) const {
  static const std::string none;
  const auto& signature = import_.signature_;
  const auto found = signature.roles.find(running_mean.substr(0, running_mean.rfind('.') + 1) +
                                          "num_batches_tracked");
  return found == signature.roles.end() ? none : found->first;
}

void Call::give(int index, Known known) {
  if (index >= output_count() || output(index).empty()) return;
  if (import_.initializers_.contains(output(index)) ||
      !import_.known_.emplace(output(index), std::move(known)).second)
    damaged(
        fmt::format("its result '{}' has the name of another tensor", printable(output(index))));
}

void Call::give(ValueId result, int index) { give(index, Known{.value = result}); }

void Call::give(Numbers result) {
  give(0, Known{.numbers = std::make_shared<const Numbers>(std::move(result))});
}

void Call::give(const GeluPart& part) { give(0, Known{.gelu = part}); }

void Call::give(DropoutPart part) { give(0, Known{.dropout = std::move(part)}); }

void Call::give(std::vector<ValueId> parts) { give(0, Known{.parts = std::move(parts)}); }

}  // namespace troupe::graph::onnx
