// A user's program whose actors live in two processes, and whose messages can leave theirs: what
// it needs is installed. It starts no process; it is compiled, linked, and checks what it has
// built.
#include <troupe/runtime/flow/payload.h>
#include <troupe/troupe.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

using namespace troupe;

namespace {

struct Reading {
  Tensor values;
  double mean = 0;
  std::vector<std::uint32_t> steps;
  std::string note;
  static void members(auto& self, auto& visit) {
    visit(self.values);
    visit(self.mean);
    visit(self.steps);
    visit(self.note);
  }
};

class Meter final : public Actor {
 public:
  Output<Reading> reading{this, "reading"};
  ActionLabel act() override { return {"M", {}}; }
};

class Display final : public Actor {
 public:
  Input<Reading> reading{this, "reading"};
  ActionLabel act() override {
    reading.release(reading.take());
    return {"D", {}};
  }
};

bool survives_the_journey() {
  const PayloadCodec codec = payload_codec<Reading>();
  const Reading sent{.values = {}, .mean = 0.5, .steps = {3, 4}, .note = "warm"};
  const auto came =
      std::static_pointer_cast<const Reading>(codec.put_together(codec.take_apart(&sent)));
  return came->mean == sent.mean && came->steps == sent.steps && came->note == sent.note;
}

}  // namespace

int main() {
  Graph graph;
  const auto meter = graph.add<Meter>("meter");
  const auto display = graph.add<Display>("display");
  graph.place(display, 1);
  graph.connect(meter, &Meter::reading, display, &Display::reading, {.slots = 2, .step_bytes = 64});
  const bool placed = graph.nodes()[meter.index].process == 0 &&
                      graph.nodes()[display.index].process == 1 && graph.edges()[0].codec;
  if (!placed || !survives_the_journey()) {
    std::puts("the installed headers do not do what they say");
    return 1;
  }
  std::puts("two processes, one graph");
}
