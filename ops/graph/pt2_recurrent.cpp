// Recurrent layers and cells (nn.LSTM, nn.GRU, nn.RNN) as the operators of their steps, with the
// weights and the order of gates of PyTorch.

#include <fmt/format.h>

#include <array>

#include "ops/graph/pt2_operators.h"
#include "ops/graph/shapes.h"

namespace troupe::graph {
namespace {

constexpr std::int64_t most_steps = 4096;
constexpr std::int64_t nodes_of_step = 20;  // at most

struct Weights {
  ValueId input, hidden, input_bias, hidden_bias;
};

/// Of an LSTM, also its cell.
struct State {
  ValueId hidden, cell;
};

/// From what a step's input and its former state give to the gates, [batch, gates * features].
using Cell = State (*)(const Pt2Node& node, ValueId from_input, ValueId from_hidden,
                       const State& before, std::int64_t features);

ValueId multiplied(const Pt2Node& node, ValueId a, ValueId b) {
  return node.add(Arithmetic{ArithmeticOperation::multiply}, {a, b});
}
ValueId added(const Pt2Node& node, ValueId a, ValueId b) {
  return node.add(Arithmetic{ArithmeticOperation::add}, {a, b});
}
ValueId activated(const Pt2Node& node, ActivationFunction function, ValueId x) {
  return node.add(Activate{function}, {x});
}
ValueId gate(const Pt2Node& node, ValueId gates, std::int64_t index, std::int64_t features) {
  return node.add(Slice{1, index * features, features}, {gates});
}

/// i, f, g, o of nn.LSTM: c' = f c + i g; h' = o tanh(c').
State lstm_step(const Pt2Node& node, ValueId from_input, ValueId from_hidden, const State& before,
                std::int64_t features) {
  using enum ActivationFunction;
  const ValueId gates = added(node, from_input, from_hidden);
  std::array<ValueId, 4> of{};
  for (std::int64_t i = 0; i < 4; ++i)
    of[static_cast<std::size_t>(i)] =
        activated(node, i == 2 ? tanh : sigmoid, gate(node, gates, i, features));
  const ValueId cell =
      added(node, multiplied(node, of[1], before.cell), multiplied(node, of[0], of[2]));
  return {multiplied(node, of[3], activated(node, tanh, cell)), cell};
}

/// r, z, n of nn.GRU: n = tanh(input + r hidden); h' = n + z (h - n).
State gru_step(const Pt2Node& node, ValueId from_input, ValueId from_hidden, const State& before,
               std::int64_t features) {
  using enum ActivationFunction;
  const auto both = [&](std::int64_t i) {
    return activated(
        node, sigmoid,
        added(node, gate(node, from_input, i, features), gate(node, from_hidden, i, features)));
  };
  const ValueId reset = both(0), update = both(1);
  const ValueId candidate =
      activated(node, tanh,
                added(node, gate(node, from_input, 2, features),
                      multiplied(node, reset, gate(node, from_hidden, 2, features))));
  const ValueId change =
      node.add(Arithmetic{ArithmeticOperation::subtract}, {before.hidden, candidate});
  return {added(node, candidate, multiplied(node, update, change)), {}};
}

template <bool relu>
State rnn_step(const Pt2Node& node, ValueId from_input, ValueId from_hidden, const State&,
               std::int64_t) {
  const ValueId sum = added(node, from_input, from_hidden);
  return {relu ? node.add(Relu{}, {sum}) : activated(node, ActivationFunction::tanh, sum), {}};
}

ValueId linear(const Pt2Node& node, ValueId x, ValueId weight, ValueId bias) {
  std::vector<ValueId> inputs{x, weight};
  if (bias.index >= 0) inputs.push_back(bias);
  return node.add(Linear{}, inputs);
}

std::int64_t features_of(const Pt2Node& node, const Weights& weights) {
  const Sizes& shape = node.shape(weights.hidden);
  if (shape.size() != 2) node.json().fail("its weights are not matrices");
  return shape[1].fixed;
}

ValueId without_axis(const Pt2Node& node, ValueId x, std::size_t axis) {
  Sizes shape = node.shape(x);
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return node.add(Reshape{shape}, {x});
}

ValueId stacked(const Pt2Node& node, std::vector<ValueId> parts, int axis) {
  for (ValueId& part : parts) {
    Sizes shape = node.shape(part);
    shape.insert(shape.begin() + axis, fixed(1));
    part = node.add(Reshape{shape}, {part});
  }
  return parts.size() == 1 ? parts.front() : node.add(Concatenate{axis}, parts);
}

ValueId part_of(const Pt2Node& node, ValueId x, int axis, std::int64_t index) {
  const ValueId part = node.add(Slice{axis, index, 1}, {x});
  return without_axis(node, part, static_cast<std::size_t>(axis));
}

/// One layer in one direction over x [batch, steps, …]: its outputs [batch, steps, features] and
/// its last state.
std::pair<ValueId, State> run(const Pt2Node& node, Cell cell, const Weights& weights, ValueId x,
                              State state, bool reversed) {
  const std::int64_t features = features_of(node, weights), steps = node.shape(x)[1].fixed;
  const ValueId from_input = linear(node, x, weights.input, weights.input_bias);
  std::vector<ValueId> outputs(static_cast<std::size_t>(steps));
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t step = reversed ? steps - 1 - i : i;
    const ValueId from_hidden = linear(node, state.hidden, weights.hidden, weights.hidden_bias);
    state = cell(node, part_of(node, from_input, 1, step), from_hidden, state, features);
    outputs[static_cast<std::size_t>(step)] = state.hidden;
  }
  return {stacked(node, std::move(outputs), 1), state};
}

/// The arguments of nn.LSTM and its like.
struct Layers {
  explicit Layers(const Pt2Node& node)
      : has_biases(node.boolean("has_biases", true)),
        directions(node.boolean("bidirectional", false) ? 2 : 1),
        count(node.integer("num_layers")),
        weights(node.values("params")) {
    const std::size_t each = has_biases ? 4 : 2;
    const bool fits = count >= 1 && count <= most_steps &&
                      weights.size() == static_cast<std::size_t>(count * directions) * each;
    if (!fits) throw LacksOperator{"it has weights of another form (proj_size)"};
  }
  Weights of(std::int64_t index) const {
    const auto* first = &weights[static_cast<std::size_t>(index) * (has_biases ? 4 : 2)];
    return has_biases ? Weights{first[0], first[1], first[2], first[3]}
                      : Weights{first[0], first[1], {}, {}};
  }

  bool has_biases;
  std::int64_t directions, count;
  std::vector<ValueId> weights;
};

/// x as [batch, steps, features].
ValueId samples_first(const Pt2Node& node) {
  ValueId x = node.value("input");
  if (node.shape(x).size() == 3 && !node.boolean("batch_first", false))
    x = node.add(Permute{{1, 0, 2}}, {x});
  if (node.shape(x).size() != 3 || !has_batch_axis(node.shape(x)))
    throw LacksOperator{fmt::format("it takes samples of [steps, features], not {}",
                                    to_string(node.shape(node.value("input"))))};
  return x;
}

/// Gives the outputs and the last states, [layers * directions, batch, features].
void give_layers(const Pt2Node& node, Cell cell, const std::vector<ValueId>& states) {
  const Layers layers(node);
  const double dropout = node.boolean("train", true) ? node.number("dropout", 0.0) : 0.0;
  ValueId x = samples_first(node);
  const std::int64_t steps = node.shape(x)[1].fixed * layers.count * layers.directions;
  if (steps < 1 || steps > most_steps)
    throw LacksOperator{
        fmt::format("it has {} steps in all layers; 1 to {} are possible", steps, most_steps)};
  node.context().take_nodes(steps * nodes_of_step);
  std::vector<ValueId> hidden, cells;
  for (std::int64_t layer = 0; layer < layers.count; ++layer) {
    if (layer > 0 && dropout > 0) x = node.add(Dropout{dropout}, {x});
    std::vector<ValueId> outputs;
    for (std::int64_t direction = 0; direction < layers.directions; ++direction) {
      const std::int64_t index = layer * layers.directions + direction;
      State state{part_of(node, states[0], 0, index), {}};
      if (states.size() > 1) state.cell = part_of(node, states[1], 0, index);
      const auto [output, last] =
          run(node, cell, layers.of(index), x, state, /*reversed=*/direction == 1);
      outputs.push_back(output);
      hidden.push_back(last.hidden);
      cells.push_back(last.cell);
    }
    x = outputs.size() == 1 ? outputs.front() : node.add(Concatenate{2}, outputs);
  }
  if (!node.boolean("batch_first", false)) x = node.add(Permute{{1, 0, 2}}, {x});
  std::vector<ValueId> results{x, stacked(node, hidden, 0)};
  if (states.size() > 1) results.push_back(stacked(node, cells, 0));
  node.give_all(results);
}

void lstm(const Pt2Node& node) {
  const std::vector<ValueId> states = node.values("hx");
  if (states.size() != 2) node.json().fail("'hx' has not two tensors");
  give_layers(node, lstm_step, states);
}

template <Cell cell>
void layers(const Pt2Node& node) {
  give_layers(node, cell, {node.value("hx")});
}

State cell_state(const Pt2Node& node, Cell cell, const State& before) {
  const Weights weights{node.value("w_ih"), node.value("w_hh"), node.optional_value("b_ih"),
                        node.optional_value("b_hh")};
  const ValueId x = node.value("input");
  if (node.shape(x).size() != 2 || !has_batch_axis(node.shape(x)))
    throw LacksOperator{
        fmt::format("it takes [batch, features], not {}", to_string(node.shape(x)))};
  return cell(node, linear(node, x, weights.input, weights.input_bias),
              linear(node, before.hidden, weights.hidden, weights.hidden_bias), before,
              features_of(node, weights));
}

void lstm_cell(const Pt2Node& node) {
  const std::vector<ValueId> states = node.values("hx");
  if (states.size() != 2) node.json().fail("'hx' has not two tensors");
  const State after = cell_state(node, lstm_step, {states[0], states[1]});
  node.give_all({after.hidden, after.cell});
}

template <Cell cell>
void one_cell(const Pt2Node& node) {
  node.give(cell_state(node, cell, {node.value("hx"), {}}).hidden);
}

}  // namespace

void add_recurrent(Pt2Handlers& handlers) {
  handlers["lstm.input"] = lstm;
  handlers["gru.input"] = layers<gru_step>;
  handlers["rnn_tanh.input"] = layers<rnn_step<false>>;
  handlers["rnn_relu.input"] = layers<rnn_step<true>>;
  handlers["lstm_cell.default"] = lstm_cell;
  handlers["gru_cell.default"] = one_cell<gru_step>;
  handlers["rnn_tanh_cell.default"] = one_cell<rnn_step<false>>;
  handlers["rnn_relu_cell.default"] = one_cell<rnn_step<true>>;
}

}  // namespace troupe::graph
