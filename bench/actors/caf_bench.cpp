// The cost of a hop between two plain CAF actors: a message there and back. The difference to
// hop_bench is the cost of slots, headers and credits.
//
//   caf_bench [threads]

#include <fmt/format.h>

#include <algorithm>
#include <caf/all.hpp>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Times {
  std::vector<double> microseconds;
  Clock::time_point since;
};

caf::behavior returner(caf::event_based_actor* /*self*/) {
  return {[](int value) { return value; }};
}

/// Sends a message, waits until it returns, and records the time.
caf::behavior server(caf::event_based_actor* self, const caf::actor& other,
                     const std::shared_ptr<Times>& times, int count) {
  times->since = Clock::now();
  self->send(other, 0);
  return {[=](int value) {
    const auto now = Clock::now();
    times->microseconds.push_back(
        std::chrono::duration<double, std::micro>(now - times->since).count());
    if (value + 1 == count) return self->quit();
    times->since = Clock::now();
    self->send(other, value + 1);
  }};
}

void round_trips(int threads, int count) {
  caf::actor_system_config config;
  config.set("scheduler.policy", caf::atom("sharing"));  // as graphs have it
  config.set("scheduler.max-threads", static_cast<std::size_t>(threads));
  auto times = std::make_shared<Times>();
  times->microseconds.reserve(static_cast<std::size_t>(count));
  {
    caf::actor_system system(config);
    system.spawn(server, system.spawn(returner), times, count);
    system.await_all_actors_done();
  }
  auto& all = times->microseconds;
  if (all.size() != static_cast<std::size_t>(count)) std::abort();
  std::ranges::sort(all);
  const auto at = [&](double q) { return all[static_cast<std::size_t>(q * (count - 1))] / 2; };
  fmt::print("CAF, {} thread{}: median {:.2f} us, 10 % {:.2f} us, 99 % {:.2f} us (n = {})\n",
             threads, threads > 1 ? "s" : "", at(0.5), at(0.1), at(0.99), count);
}

}  // namespace

int main(int argc, char** argv) {
  const int most = argc > 1 ? std::atoi(argv[1]) : 2;
  for (int threads = 1; threads <= most; ++threads) round_trips(threads, 200'000);
}
