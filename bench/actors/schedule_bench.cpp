// The time of a step of timed stages against the bound of its schedule, such as m (F + B) of work
// and a bubble of (p - 1)(F + B) for 1F1B. The stages are the real actors with a program that only
// waits.
//
//   schedule_bench [milliseconds a forward] [steps] [schedule…]      gpipe and 1f1b unless named

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "actors/loss.h"
#include "actors/monitor.h"
#include "actors/reducer.h"
#include "actors/schedule_simulation.h"
#include "actors/stage.h"
#include "actors/timeline.h"
#include "runtime/flow/run.h"

namespace {

using namespace troupe;
using namespace std::chrono;

// Sleeps as exactly as the kernel can: its default slack of 50 us would count as bubble.
void pass_time(nanoseconds time) {
  thread_local const int exact = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  static_cast<void>(exact);
  std::this_thread::sleep_for(time);
}

/// Waits in place of computing: a forward takes the given time, a backward twice as long.
class TimedProgram final : public StageProgram {
 public:
  explicit TimedProgram(nanoseconds forward)
      : forward_(forward),
        state_(std::make_shared<const StateVersion>(
            StateVersion{.weights = Tensor::zeros({1}), .buffers = Tensor::zeros({0})})) {}
  void use(StatePtr state) override { state_ = std::move(state); }
  const StatePtr& state() const override { return state_; }
  std::shared_ptr<const StateSpec> spec() const override {
    return std::make_shared<const StateSpec>();
  }
  Forward forward(const Tensor& x, const RandomKey&, bool, std::size_t) override {
    pass_time(forward_);
    return {x, std::make_unique<Saved>()};
  }
  Tensor input_gradient(StageProgram::Saved& saved, const Tensor& grad) override {
    pass_time(forward_);
    static_cast<Saved&>(saved).input_half_done = true;
    return grad;
  }
  Backward backward(StageProgram::Saved& saved, const Tensor& grad, std::size_t) override {
    pass_time(static_cast<Saved&>(saved).input_half_done ? forward_ : 2 * forward_);
    return {grad, Tensor::zeros({1}), Tensor::zeros({0})};
  }
  Tensor evaluate(const Tensor& x, std::size_t) override { return x; }
  Tensor gradient_squares(const Optimizer&, const std::vector<Tensor>&) const override {
    return Tensor::zeros(Shape{1}, DType::f64);
  }
  StatePtr step(const Optimizer&, double, const std::vector<Tensor>&,
                const std::vector<Tensor>&) const override {
    return std::make_shared<const StateVersion>(*state_);
  }

 private:
  struct Saved final : StageProgram::Saved {
    bool input_half_done = false;
  };
  nanoseconds forward_;
  StatePtr state_;
};

/// Feeds `count` micro-batches a step, for `steps` steps.
class Feeder final : public Actor {
 public:
  Feeder(std::uint32_t count, std::uint32_t steps) : count_(count), steps_(steps) {}
  Output<Activation> samples{this, "samples"};
  Output<Targets> targets{this, "targets"};
  bool ready() const override {
    return next_ < count_ * steps_ && samples.has_slot() && targets.has_slot();
  }
  ActionLabel act() override {
    const Header about{.key = {next_ / count_, Purpose::train, next_ % count_},
                       .samples = 1,
                       .batch_samples = count_,
                       .micro_batches = count_};
    ++next_;
    samples.send(about, {Tensor::zeros({1, 2})});
    targets.send(about, {Tensor::zeros({1}, DType::i64)});
    return {"load", about.key};
  }

 private:
  std::uint32_t count_, steps_, next_ = 0;
};

// The median time of a step.
double step_time(ScheduleKind kind, std::uint32_t stages, std::uint32_t micro_batches,
                 nanoseconds forward, std::uint32_t steps) {
  Graph graph;
  const Timeline timeline{.steps = steps, .steps_per_epoch = steps, .evaluates = false};
  auto times = std::make_shared<std::vector<double>>();
  MonitorOptions options_of_monitor;
  options_of_monitor.timeline = timeline;
  options_of_monitor.on_step = [times](const StepSeen& seen) {
    times->push_back(duration<double>(seen.duration).count());
  };
  const auto monitor = graph.add<Monitor>("monitor", options_of_monitor);
  const auto feeder = graph.add<Feeder>("feeder", micro_batches, steps);
  const auto loss = graph.add<Loss>("loss", LossOptions{});
  std::vector<ActorRef<Stage>> actors;
  std::vector<StageSchedule> schedules;
  for (std::uint32_t s = 0; s < stages; ++s)
    schedules.push_back(stage_schedule(kind, s, stages, micro_batches));
  for (std::uint32_t s = 0; s < stages; ++s) {
    StageOptions options{.program = [forward] { return std::make_unique<TimedProgram>(forward); },
                         .schedule = schedules[s],
                         .stage = s};
    actors.push_back(graph.add<Stage>(fmt::format("stage/{}", s), options));
    const auto reducer = graph.add<Reducer>(fmt::format("reducer/{}", s), ReducerOptions{});
    graph.connect(actors[s], &Stage::gradient, reducer, &Reducer::gradient, {.slots = 2});
    graph.connect(reducer, &Reducer::reduced, actors[s], &Stage::reduced, {.slots = 1});
    if (s == 0) continue;
    const EdgeSlots slots = slots_between(schedules[s - 1], schedules[s]);
    graph.connect(actors[s - 1], &Stage::output, actors[s], &Stage::input,
                  {.slots = slots.outputs});
    graph.connect(actors[s], &Stage::input_gradient, actors[s - 1], &Stage::output_gradient,
                  {.slots = slots.gradients});
  }
  const std::uint32_t fed = schedules.front().credits + 2;
  graph.connect(feeder, &Feeder::samples, actors.front(), &Stage::input, {.slots = fed});
  graph.connect(feeder, &Feeder::targets, loss, &Loss::targets, {.slots = fed});
  const EdgeSlots slots = slots_to_loss(schedules.back());
  graph.connect(actors.back(), &Stage::output, loss, &Loss::logits, {.slots = slots.outputs});
  graph.connect(loss, &Loss::logits_gradient, actors.back(), &Stage::output_gradient,
                {.slots = slots.gradients});
  graph.connect(loss, &Loss::score, monitor, &Monitor::score, {.slots = 64});
  RunOptions options;
  options.threads = static_cast<int>(stages) + 1;  // sleeping stages and one for the others
  options.steps.count = steps;
  run(graph, options);
  if (times->size() != steps) std::abort();
  std::ranges::sort(*times);
  return (*times)[times->size() / 2];
}

// Of a step without communication; tests hold it to the bubble of theory.
double bound_of(ScheduleKind kind, std::uint32_t stages, std::uint32_t micro_batches,
                nanoseconds forward) {
  const double time = duration<double>(forward).count();
  return end_of(simulate(kind, micro_batches, std::vector<StageTimes>(stages, {time, time, time})));
}

}  // namespace

int main(int argc, char** argv) {
  const nanoseconds forward(static_cast<std::int64_t>(1e6 * (argc > 1 ? std::atof(argv[1]) : 4.0)));
  const auto steps = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 5);
  fmt::print("{:<8}{:>8}{:>15}{:>12}{:>12}{:>10}\n", "schedule", "stages", "micro-batches", "bound",
             "measured", "over");
  std::vector<std::string> names(argv + std::min(argc, 3), argv + argc);
  if (names.empty()) names = {"gpipe", "1f1b"};
  for (const auto& [name, kind] : schedule_names) {
    if (std::ranges::find(names, name) == names.end()) continue;
    for (std::uint32_t stages : {2u, 4u, 8u})
      for (std::uint32_t micro_batches : {4u, 8u, 16u, 32u}) {
        const double bound = bound_of(kind, stages, micro_batches, forward);
        const double measured = step_time(kind, stages, micro_batches, forward, steps);
        fmt::print("{:<8}{:>8}{:>15}{:>9.2f} ms{:>9.2f} ms{:>8.2f} %\n", name, stages,
                   micro_batches, 1e3 * bound, 1e3 * measured, 100 * (measured / bound - 1));
      }
  }
}
