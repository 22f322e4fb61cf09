#include "runtime/flow/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/flow/runtime_access.h"
#include "runtime/text.h"

namespace troupe {

std::size_t Graph::add_actor(std::string name, std::function<std::unique_ptr<Actor>()> make) {
  if (std::ranges::find(actors_, name, &ActorSpec::name) != actors_.end())
    throw Error(ErrorCode::bad_graph, fmt::format("two actors are named '{}'", name),
                "give each actor its own name, such as stage/0 and stage/1");
  auto prototype = make();
  actors_.push_back({std::move(name), std::move(make), std::move(prototype)});
  return actors_.size() - 1;
}

void Graph::connect_ports(std::size_t from, std::size_t output, std::size_t to, std::size_t input,
                          EdgeOptions options, PayloadCodec codec) {
  OutputPort& sender = *actors_.at(from).prototype->outputs().at(output);
  InputPort& receiver = *actors_.at(to).prototype->inputs().at(input);
  const auto id = static_cast<std::uint32_t>(edges_.size());
  const std::string name = fmt::format("edge {}.{} → {}.{}", actors_[from].name, sender.name(),
                                       actors_[to].name, receiver.name());
  if (options.slots == 0)
    throw Error(ErrorCode::bad_graph, name + " has no slots", "an edge needs at least one");
  if (sender.type() != receiver.type())
    throw Error(ErrorCode::bad_graph, name + " connects ports of different types");
  const std::string refusal = actors_[to].prototype->refusal(receiver, *actors_[from].prototype);
  if (!refusal.empty()) throw Error(ErrorCode::bad_graph, name + ": " + refusal);
  edges_.push_back({from, to, output, input, options, codec});
  RuntimeAccess::attach(sender, id, options.slots);
  RuntimeAccess::attach(receiver, id, options.slots);
}

void Graph::check_connected() const {
  for (const ActorSpec& spec : actors_) {
    for (const InputPort* port : spec.prototype->inputs())
      if (port->lacks_edge())
        throw Error(ErrorCode::bad_graph, fmt::format("{}.{} has no edge", spec.name, port->name()),
                    "connect an output to it; without one its actor never becomes ready");
    for (const OutputPort* port : spec.prototype->outputs())
      if (port->lacks_edge())
        throw Error(ErrorCode::bad_graph, fmt::format("{}.{} has no edge", spec.name, port->name()),
                    "connect it to an input, or make the port Connection::optional");
  }
}

std::string Graph::edge_name(std::size_t edge) const {
  const Edge& e = edges_.at(edge);
  return fmt::format("{}.{} → {}.{}", actors_[e.from].name,
                     actors_[e.from].prototype->outputs().at(e.output)->name(), actors_[e.to].name,
                     actors_[e.to].prototype->inputs().at(e.input)->name());
}

std::size_t Graph::find_actor(std::string_view name) const {
  const auto found = std::ranges::find(actors_, name, &ActorSpec::name);
  if (found != actors_.end()) return static_cast<std::size_t>(found - actors_.begin());
  std::vector<std::string> names;
  for (const ActorSpec& spec : actors_) names.push_back(spec.name);
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  throw Error(ErrorCode::bad_graph, fmt::format("no actor is named '{}'", name),
              names.empty() ? "the graph is empty"
                            : did_you_mean(name, candidates, "there are " + listed(names, 24)));
}

void Graph::refuse_type(std::size_t index) const {
  throw Error(
      ErrorCode::bad_graph,
      fmt::format("actor '{}' has a different type from the requested one", actors_[index].name),
      "pass the class with which it was added");
}

std::unique_ptr<Actor> Graph::make_actor(std::size_t index) const {
  auto actor = actors_.at(index).make();
  for (std::size_t id = 0; id < edges_.size(); ++id) {
    const Edge& edge = edges_[id];
    const auto number = static_cast<std::uint32_t>(id);
    if (edge.from == index)
      RuntimeAccess::attach(*actor->outputs().at(edge.output), number, edge.options.slots);
    if (edge.to == index)
      RuntimeAccess::attach(*actor->inputs().at(edge.input), number, edge.options.slots);
  }
  return actor;
}

std::size_t Graph::port_index(std::size_t index, const OutputPort* port) const {
  const auto& ports = actors_.at(index).prototype->outputs();
  return static_cast<std::size_t>(std::ranges::find(ports, port) - ports.begin());
}

std::size_t Graph::port_index(std::size_t index, const InputPort* port) const {
  const auto& ports = actors_.at(index).prototype->inputs();
  return static_cast<std::size_t>(std::ranges::find(ports, port) - ports.begin());
}

}  // namespace troupe
