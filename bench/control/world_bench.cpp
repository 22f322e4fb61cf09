// Worlds of 10 to 1,000 members over real sockets on loopback: how long they take to join, pass a
// barrier and leave, and what memory they take. The members are threads of processes of at most 50;
// a process of their own each would only add its own start. Prints a line a world:
//
//   members join_ms barrier_ms leave_ms coordinator_kib member_kib
//
//   world_bench [sizes ...]

#include <fmt/format.h>

#include <barrier>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "processes.h"
#include "runtime/control/coordinator.h"
#include "runtime/control/detail/context.h"
#include "runtime/control/member.h"

namespace {

using namespace troupe;
using namespace troupe::control_bench;
using Clock = std::chrono::steady_clock;

constexpr int members_of_a_process = 50;
constexpr std::chrono::minutes timeout{5};

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "world_bench: {}\n", what);
  std::_Exit(1);
}

void require(const Status& status) {
  if (!status) fail(status.error().what());
}

long resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmRSS:") {
      long kib = 0;
      status >> kib;
      return kib;
    }
  return 0;
}

/// A process of members; the parent says when to join, to pass the barrier and to leave.
int play(const std::string& endpoint, const std::string& key, int first, int count, int size) {
  const auto messaging = std::make_shared<MessagingContext>(1, 16 * members_of_a_process);
  std::barrier<> step(count + 1);
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      MemberOptions options;
      options.key = JobKey::parse(key);
      options.coordinator = endpoint;
      options.run = "bench";
      options.local_rank = first + i;
      options.size = size;
      options.timeout = timeout;
      options.messaging = messaging;
      step.arrive_and_wait();
      auto joined = Member::join(options);
      if (!joined) fail(joined.error().what());
      if (joined.value()->rank() != first + i) fail("a rank that was not meant");
      step.arrive_and_wait();
      step.arrive_and_wait();
      require(joined.value()->barrier("all"));
      step.arrive_and_wait();
      step.arrive_and_wait();
      require(joined.value()->leave());
      step.arrive_and_wait();
    });
  const long before = resident_kib();
  for (int phase = 0; phase < 3; ++phase) {
    await_word();
    step.arrive_and_wait();
    step.arrive_and_wait();
    fmt::print("{}\n", resident_kib() - before);
    std::fflush(stdout);
  }
  return 0;
}

void measure(int size) {
  const JobKey key = JobKey::generate();
  const long before = resident_kib();
  CoordinatorOptions options;
  options.key = key;
  options.run = "bench";
  options.size = size;
  options.timeout = timeout;
  auto coordinator = std::move(Coordinator::start(options).value());
  std::vector<Child> children;
  for (int first = 0; first < size; first += members_of_a_process)
    children.emplace_back(std::vector<std::string>{
        "members", coordinator->endpoint(), key.text(), std::to_string(first),
        std::to_string(std::min(members_of_a_process, size - first)), std::to_string(size)});
  std::this_thread::sleep_for(std::chrono::seconds(1));  // their own start is not measured
  std::string line = std::to_string(size);
  long members = 0;
  long own = 0;
  for (int phase = 0; phase < 3; ++phase) {
    const auto start = Clock::now();
    for (const Child& child : children) child.tell('g');
    long total = 0;
    for (const Child& child : children) {
      const std::string kib = child.line();
      if (kib.empty()) fail("a process of members has ended");
      total += std::atol(kib.c_str());
    }
    line += fmt::format(" {:.1f}",
                        std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    members = std::max(members, total);
    own = std::max(own, resident_kib() - before);
  }
  require(coordinator->wait_for_end(timeout));
  fmt::print("{} {} {:.0f}\n", line, own, static_cast<double>(members) / size);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.size() == 6 && arguments[0] == "members")
    return play(arguments[1], arguments[2], std::stoi(arguments[3]), std::stoi(arguments[4]),
                std::stoi(arguments[5]));
  fmt::print("members join_ms barrier_ms leave_ms coordinator_kib member_kib\n");
  if (arguments.empty())
    for (const int size : {10, 30, 100, 300, 1000}) measure(size);
  for (const std::string& size : arguments) measure(std::stoi(size));
}
