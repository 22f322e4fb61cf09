// Control messages between two processes of this host, over TCP on loopback, against ZeroMQ alone;
// interleaved, answers checked. Prints "NAME: microseconds microseconds ..." a line, each the
// median of many round trips. Each process keeps to a core of its own, where there are two: which
// threads share a core would otherwise decide the figures.
//
//   control_bench [repetitions] [round trips each]
//
//   member           from handler to handler: the other process answers in its callback, and the
//                    next round trip starts in ours
//   member-thread    the same from a thread that sends and waits, as the launcher's or a user's
//   zeromq-curve     DEALER and ROUTER with CURVE, each in a loop of its thread
//   zeromq           the same without CURVE

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "processes.h"
#include "runtime/control/coordinator.h"
#include "runtime/control/detail/context.h"
#include "runtime/control/member.h"

namespace {

using namespace troupe;
using namespace troupe::control_bench;
using Clock = std::chrono::steady_clock;

const std::string body(64, 'x');

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

double median(std::vector<double>& times) {
  std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "control_bench: {}\n", what);
  std::exit(1);
}

MemberOptions options(const std::string& endpoint, const std::string& key, int rank) {
  MemberOptions wanted;
  wanted.key = JobKey::parse(key);
  wanted.coordinator = endpoint;
  wanted.run = "bench";
  wanted.rank = rank;
  wanted.size = 2;
  return wanted;
}

/// Keeps this process to the first or second of the cores that it may use.
void keep_to_core(int which) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || which-- > 0) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    sched_setaffinity(0, sizeof own, &own);
    return;
  }
}

/// The other process: a member that answers in its callback, and two plain ROUTERs.
int echo(const std::string& endpoint, const std::string& key, const std::string& core) {
  keep_to_core(std::stoi(core));
  auto joined = Member::join(options(endpoint, key, 1));
  if (!joined) fail(joined.error().what());
  Member& member = *joined.value();
  member.open([&](int from, std::string message) { member.send(from, std::move(message)); },
              [](const PeerLost&) { std::_Exit(0); });
  MessagingContext context;
  zmq::socket_t curve = context.server(zmq::socket_type::router, JobKey::parse(key));
  zmq::context_t plain_context;
  zmq::socket_t plain(plain_context, zmq::socket_type::router);
  std::vector<std::jthread> threads;
  for (zmq::socket_t* socket : {&curve, &plain}) {
    socket->bind("tcp://127.0.0.1:*");
    fmt::print("{}\n", socket->get(zmq::sockopt::last_endpoint));
    threads.emplace_back([socket] {
      for (zmq::message_t route, message;;) {
        (void)socket->recv(route);
        (void)socket->recv(message);
        socket->send(route, zmq::send_flags::sndmore);
        socket->send(message, zmq::send_flags::none);
      }
    });
  }
  std::fflush(stdout);
  await_word();
  std::_Exit(0);
}

double over_socket(zmq::socket_t& socket, int count) {
  std::vector<double> times;
  zmq::message_t answer;
  for (int i = 0; i < count; ++i) {
    const auto start = Clock::now();
    socket.send(zmq::buffer(body), zmq::send_flags::none);
    (void)socket.recv(answer);
    times.push_back(microseconds(Clock::now() - start));
    if (answer.to_string_view() != body) fail("a wrong answer over ZeroMQ");
  }
  return median(times);
}

/// Round trips that begin and end in the member's callback.
class HandlerTrips {
 public:
  explicit HandlerTrips(Member& member) : member_(member) {
    member.open([this](int, const std::string& answer) { take(answer); },
                [](const PeerLost& lost) { fail(to_string(lost)); });
  }

  double from_handler(int count) {
    times_.clear();
    run(count);
    return median(times_);
  }

  double from_thread(int count) {
    std::vector<double> times;
    for (int i = 0; i < count; ++i) {
      const auto start = Clock::now();
      run(1);
      times.push_back(microseconds(Clock::now() - start));
    }
    return median(times);
  }

 private:
  void run(int count) {
    left_ = count;
    done_ = std::promise<void>();
    auto done = done_.get_future();
    start_ = Clock::now();
    member_.send(1, body);
    done.get();
  }

  void take(const std::string& answer) {
    if (answer != body) fail("a wrong answer between members");
    const auto now = Clock::now();
    times_.push_back(microseconds(now - start_));
    if (--left_ == 0) return done_.set_value();
    start_ = Clock::now();
    member_.send(1, body);
  }

  Member& member_;
  int left_ = 0;
  Clock::time_point start_;
  std::vector<double> times_;
  std::promise<void> done_;
};

int measure(int repetitions, int count) {
  const JobKey key = JobKey::generate();
  CoordinatorOptions wanted;
  wanted.key = key;
  wanted.run = "bench";
  wanted.size = 2;
  auto coordinator = std::move(Coordinator::start(wanted).value());
  const Child other({"echo", coordinator->endpoint(), key.text(), "1"});
  keep_to_core(0);  // what is started from here on
  auto joined = Member::join(options(coordinator->endpoint(), key.text(), 0));
  if (!joined) fail(joined.error().what());
  HandlerTrips trips(*joined.value());
  MessagingContext context;
  zmq::socket_t curve = context.client(zmq::socket_type::dealer, key);
  curve.connect(other.line());
  zmq::context_t plain_context;
  zmq::socket_t plain(plain_context, zmq::socket_type::dealer);
  plain.connect(other.line());
  std::map<std::string, std::vector<double>> readings;
  for (int i = -1; i < repetitions; ++i) {  // the first warms up
    const std::vector<std::pair<const char*, double>> round{
        {"member", trips.from_handler(count)},
        {"zeromq-curve", over_socket(curve, count)},
        {"zeromq", over_socket(plain, count)},
        {"member-thread", trips.from_thread(count)}};
    if (i >= 0)
      for (const auto& [name, value] : round) readings[name].push_back(value);
  }
  for (const auto& [name, values] : readings) {
    fmt::print("{}:", name);
    for (const double value : values) fmt::print(" {:.2f}", value);
    fmt::print("\n");
  }
  std::fflush(stdout);
  std::_Exit(0);  // the other process ends with this one
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.size() == 4 && arguments[0] == "echo")
    return echo(arguments[1], arguments[2], arguments[3]);
  const int repetitions = arguments.empty() ? 7 : std::atoi(arguments[0].c_str());
  const int trips = arguments.size() < 2 ? 2000 : std::atoi(arguments[1].c_str());
  if (repetitions < 1 || trips < 1) fail("usage: control_bench [repetitions] [round trips each]");
  return measure(repetitions, trips);
}
