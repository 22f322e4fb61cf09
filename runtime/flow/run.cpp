#include "runtime/flow/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <caf/scheduler/test_coordinator.hpp>
#include <chrono>
#include <future>
#include <latch>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/flow/faults.h"
#include "runtime/flow/liveness.h"
#include "runtime/flow/process_supervisor.h"

namespace troupe {
namespace {

void configure(caf::actor_system_config& config, const RunOptions& options) {
  // `stealing`, the default, wakes no worker on a send and leaves an idle core asleep for
  // milliseconds.
  const bool testing = options.scheduling == Scheduling::deterministic;
  config.set("scheduler.policy", caf::atom(testing ? "testing" : "sharing"));
  config.set("scheduler.max-threads", static_cast<std::size_t>(std::max(1, options.threads)));
}

/// CAF ends the process if it cannot start one of its threads. This starts as many threads first,
/// each with the memory that an allocator reserves for a thread, and throws if one does not start.
void check_threads_start(int count) {
  std::vector<std::unique_ptr<int>> made(static_cast<std::size_t>(count));
  std::latch all_tried(1);
  std::vector<std::jthread> threads;
  struct Tried {  // before the threads are joined, whatever is thrown
    std::latch& all;
    ~Tried() { all.count_down(); }
  } const tried{all_tried};
  try {
    for (auto& one : made)
      threads.emplace_back([&] {
        one = std::make_unique<int>(0);
        all_tried.wait();
      });
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::io,
                fmt::format("starting thread {} of the {} that actors need: {}", threads.size() + 1,
                            count, error.what()),
                "use fewer threads, or raise the limits of memory (ulimit -v) and of processes "
                "(ulimit -u)");
  }
}

/// Delivers one message after another, each to an actor that the seed selects among those with a
/// message.
void play(caf::actor_system& system, const caf::actor& supervisor, const RunOptions& options,
          const std::function<bool()>& done) {
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  std::mt19937_64 random(options.seed);
  const auto outside = [&](bool idle) { return options.outside && options.outside(idle); };
  const auto deliver_all = [&] {
    do
      while (scheduler.has_job()) {
        if (options.seed != 0 && scheduler.jobs.size() > 1)
          std::rotate(scheduler.jobs.begin(),
                      scheduler.jobs.begin() +
                          static_cast<std::ptrdiff_t>(random() % scheduler.jobs.size()),
                      scheduler.jobs.end());
        scheduler.run_once();
        outside(false);
      }
    while (outside(true));
  };
  deliver_all();
  if (done()) return;
  caf::anon_send(supervisor, flow::Deadlocked{});
  deliver_all();
}

/// By actor: whether it lives here and sends to another process. Under deterministic scheduling it
/// is true for all, so that tests meet more orders.
std::vector<bool> senders_away(const Graph& graph, const Placement& placement,
                               Scheduling scheduling) {
  std::vector<bool> senders(graph.actors().size(), scheduling == Scheduling::deterministic);
  for (const auto& edge : graph.edges())
    if (placement.is_here(edge.from) && !placement.is_here(edge.to)) senders[edge.from] = true;
  return senders;
}

/// Waits for the result, and lets the supervisor check the progress at intervals. Whether the run
/// is idle is known in a run of one process only: elsewhere an actor may be at work. It is not
/// while the supervisor makes actors, and leaves the last check unanswered. A single check may come
/// between the end of a poster and its work.
void await_result(const std::future<Result<RunReport>>& result, const caf::actor& supervisor,
                  const flow::RunState& state) {
  const auto handled = [&] {
    std::size_t sum = 0;
    for (const auto& gauge : state.gauges) sum += gauge.handled;
    return sum;
  };
  bool may_be_stuck = false;
  std::size_t sent = 0;
  for (std::size_t before = handled(), now = before;
       result.wait_for(state.options.between_checks) != std::future_status::ready; before = now) {
    now = handled();
    const bool idle = now == before && state.checks == sent && state.options.processes == 1 &&
                      std::ranges::none_of(state.gauges, &flow::MailboxGauge::busy);
    const bool unreached = idle && state.posters.use_count() == 1;
    const bool stuck = std::exchange(may_be_stuck, unreached) && unreached;
    caf::anon_send(supervisor, flow::CheckProgress{stuck  ? flow::Activity::stuck
                                                   : idle ? flow::Activity::none
                                                          : flow::Activity::some});
    ++sent;
  }
}

}  // namespace

RunReport run(const Graph& graph, const RunOptions& options) {
  if (graph.actors().empty()) throw Error(ErrorCode::bad_graph, "the graph has no actors");
  graph.check_connected();
  check_faults(options.faults, graph);
  if (const auto deadlock = find_deadlock(graph))
    throw Error(ErrorCode::bad_graph, to_string(*deadlock), deadlock->remedy);

  std::promise<Result<RunReport>> promise;
  auto result = promise.get_future();
  const auto ready = [&] {
    return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  const Placement placement(graph, options.process, options.processes);
  const std::shared_ptr<flow::RunState> state(new flow::RunState{
      .graph = graph,
      .options = options,
      .placement = placement,
      .start = flow::Clock::now(),
      .gauges = std::vector<flow::MailboxGauge>(graph.actors().size()),
      .directory = flow::Directory(graph.actors().size()),
      .faults_fired = std::make_unique<std::atomic<bool>[]>(options.faults.size()),
      .done = [&](Result<RunReport> r) { promise.set_value(std::move(r)); },
      .sent = std::make_unique<std::atomic<std::uint64_t>[]>(graph.edges().size()),
      .sends_away = senders_away(graph, placement, options.scheduling),
      .stream_backends = std::vector<const Backend*>(graph.actors().size())});
  constexpr int others = 3;  // CAF's clock, its multiplexer, and one to spare
  if (options.scheduling == Scheduling::threads)
    check_threads_start(std::max(1, options.threads) + others);
  caf::actor_system_config config;
  configure(config, options);
  caf::actor_system system(config);
  // An exception from here, for lack of memory, would wait for actors that nobody stops: it ends
  // the process.
  [&]() noexcept {
    state->yielder = system.spawn(flow::yield_actor);
    const caf::actor supervisor = system.spawn(flow::process_supervisor, state);
    std::stop_callback on_stop(options.stop, [&] { caf::anon_send(supervisor, StopRequest{}); });
    if (options.scheduling == Scheduling::deterministic) {
      play(system, supervisor, options, ready);
    } else {
      await_result(result, supervisor, *state);
    }
    if (options.bridge) options.bridge->close();
    state->yielder = nullptr;  // without references it ends, and the actor system with it
  }();
  return std::move(result.get().value());
}

}  // namespace troupe
