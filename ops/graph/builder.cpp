#include "ops/graph/builder.h"

#include <fmt/format.h>

#include "ops/graph/shapes.h"
#include "runtime/error.h"

namespace troupe::graph {

std::string Origin::text() const {
  std::string result = name;
  if (!module.empty()) result += " of " + module;
  if (!source.empty()) result += fmt::format(" ({})", source);
  return result;
}

ValueId GraphBuilder::add_value(Value value) {
  graph.values.push_back(std::move(value));
  return {static_cast<int>(graph.values.size()) - 1};
}

ValueId GraphBuilder::add(Operator operation, std::vector<ValueId> inputs, const Origin& origin) {
  std::vector<const Sizes*> shapes;
  for (const ValueId input : inputs) shapes.push_back(input.index >= 0 ? &shape(input) : nullptr);
  Value value{.name = origin.name};
  try {
    value.shape = shape_of(operation, shapes);
  } catch (const Error& error) {
    throw NodeError(ErrorCode::bad_file, fmt::format("{}: {}", origin.text(), error.message()),
                    error.remedy());
  }
  const ValueId output = add_value(std::move(value));
  graph.nodes.push_back(
      {std::move(operation), std::move(inputs), output, origin.name, origin.module, origin.source});
  return output;
}

}  // namespace troupe::graph
