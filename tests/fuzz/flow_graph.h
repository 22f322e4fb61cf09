#pragma once
// The graph whose messages the flow target decodes and its seeds encode: one edge, whose messages
// have members of several kinds.

#include <string>
#include <vector>

#include "runtime/flow/graph.h"

namespace troupe {

struct Sample {
  Tensor tensor;
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  std::int64_t count = 0;
  static void members(auto& self, auto& visit) {
    visit(self.tensor);
    visit(self.names);
    visit(self.tensors);
    visit(self.count);
  }
};
struct Sender final : Actor {
  Output<Sample> out{this, "out"};
  ActionLabel act() override { return {"send", {}}; }
};
struct Receiver final : Actor {
  Input<Sample> in{this, "in"};
  ActionLabel act() override { return {"receive", {}}; }
};

inline Graph fuzzed_graph() {
  Graph graph;
  graph.connect(graph.add<Sender>("sender"), &Sender::out, graph.add<Receiver>("receiver"),
                &Receiver::in);
  return graph;
}

}  // namespace troupe
