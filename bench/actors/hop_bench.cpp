// The cost of a hop between two idle actors of a graph: slots, headers, credits and CAF. Prints the
// median and spread of round trips, and messages per second in one direction.
//
//   hop_bench [threads] [repetitions]

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include "runtime/flow/run.h"

namespace {

using namespace troupe;
using Clock = std::chrono::steady_clock;

/// Sends a message, waits until it returns, and records the time.
class Server final : public Actor {
 public:
  Server(std::size_t count, std::shared_ptr<std::vector<double>> times)
      : count_(count), times_(std::move(times)) {}
  Output<int> out{this, "out"};
  Input<int> back{this, "back"};

  bool ready() const override {
    const bool may_send = sent_ == times_->size() && sent_ < count_;
    return out.has_slot() && (may_send || back.ready());
  }
  ActionLabel act() override {
    if (back.ready()) {
      back.release(back.take());
      times_->push_back(std::chrono::duration<double, std::micro>(Clock::now() - since_).count());
      if (times_->size() == count_) {
        finish();
        return {"end", {}};
      }
    }
    since_ = Clock::now();
    out.send({.key = {0, Purpose::train, static_cast<std::uint32_t>(sent_++)}}, 0);
    return {"serve", {}};
  }
  bool outlives_steps() const override { return true; }
  FiringRules firing_rules() const override { return {}; }  // it begins by itself

 private:
  std::size_t count_, sent_ = 0;
  std::shared_ptr<std::vector<double>> times_;
  Clock::time_point since_;
};

class Returner final : public Actor {
 public:
  Input<int> in{this, "in"};
  Output<int> out{this, "out"};
  ActionLabel act() override {
    const auto held = in.take();
    out.send(held.header, *held);
    in.release(held);
    return {"return", held.header.key};
  }
};

class Source final : public Actor {
 public:
  explicit Source(std::uint32_t count) : count_(count) {}
  Output<int> out{this, "out"};
  bool ready() const override { return next_ < count_ && out.has_slot(); }
  ActionLabel act() override {
    out.send({.key = {0, Purpose::train, next_++}}, 0);
    return {"send", {}};
  }

 private:
  std::uint32_t count_, next_ = 0;
};

class Sink final : public Actor {
 public:
  explicit Sink(std::uint32_t count) : count_(count) {}
  Input<int> in{this, "in"};
  ActionLabel act() override {
    in.release(in.take());
    if (++seen_ == count_) finish();
    return {"take", {}};
  }
  bool outlives_steps() const override { return true; }

 private:
  std::uint32_t count_, seen_ = 0;
};

RunOptions options(int threads) {
  RunOptions options;
  options.threads = threads;
  return options;
}

void round_trips(int threads, std::size_t count) {
  Graph graph;
  auto times = std::make_shared<std::vector<double>>();
  times->reserve(count);
  const auto server = graph.add<Server>("server", count, times);
  const auto returner = graph.add<Returner>("returner");
  graph.connect(server, &Server::out, returner, &Returner::in, {.slots = 2});
  graph.connect(returner, &Returner::out, server, &Server::back, {.slots = 2});
  run(graph, options(threads));
  if (times->size() != count) std::abort();
  std::ranges::sort(*times);
  const auto at = [&](double q) {
    return (*times)[static_cast<std::size_t>(q * static_cast<double>(count - 1))] / 2;
  };
  fmt::print("hop, {} thread{}: median {:.2f} us, 10 % {:.2f} us, 99 % {:.2f} us (n = {})\n",
             threads, threads > 1 ? "s" : "", at(0.5), at(0.1), at(0.99), count);
}

void throughput(int threads, std::uint32_t count, int repetitions) {
  std::vector<double> rates;
  for (int r = 0; r < repetitions; ++r) {
    Graph graph;
    const auto source = graph.add<Source>("source", count);
    const auto sink = graph.add<Sink>("sink", count);
    graph.connect(source, &Source::out, sink, &Sink::in, {.slots = 64});
    const auto begin = Clock::now();
    run(graph, options(threads));
    rates.push_back(count / std::chrono::duration<double>(Clock::now() - begin).count() / 1e6);
  }
  std::ranges::sort(rates);
  fmt::print("one way, {} thread{}: {:.2f} M hops/s [{:.2f} .. {:.2f}] (64 slots, {} runs of {})\n",
             threads, threads > 1 ? "s" : "", rates[rates.size() / 2], rates.front(), rates.back(),
             repetitions, count);
}

}  // namespace

int main(int argc, char** argv) {
  const int most = argc > 1 ? std::atoi(argv[1]) : 2;
  const int repetitions = argc > 2 ? std::atoi(argv[2]) : 5;
  for (int threads = 1; threads <= most; ++threads) {
    round_trips(threads, 200'000);
    throughput(threads, 1'000'000, repetitions);
  }
}
