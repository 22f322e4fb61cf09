// Worlds of 10 to 1,000 members over real sockets on loopback: how long they take to join, pass
// barriers and leave, and what memory they take. Ten barriers in a row, of which the figures are
// the mean: a single one of a small world is over before its threads are awake. The members are
// threads of processes of at most 50; a process of their own each would only add its own start. The
// coordinator has a process of its own, new for every world, so that its processor time and memory
// are nobody else's; it keeps to one core and the members to the others, where there are two or
// more.
//
// Prints a line a world: milliseconds of joining, one barrier, leaving and closing the connections
// by the clock (all take part in that, on the cores there are), those of the coordinator's
// processor time, the frames that it received and sent, and by how many KiB the resident memory of
// coordinator and of each member has grown.
//
//   members join barrier leave close cpu_join cpu_barrier cpu_leave cpu_close frames_in frames_out
//   coordinator member
//
//   world_bench [-n REPETITIONS] [sizes ...]

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "processes.h"
#include "runtime/control/coordinator.h"
#include "runtime/control/detail/context.h"
#include "runtime/control/member.h"
#include "tests/unit/runtime/own_memory.h"

namespace {

using namespace troupe;
using namespace troupe::control_bench;
using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

constexpr int members_of_a_process = 50;
constexpr int phases = 4;  // join, barriers, leave, close
constexpr std::array<int, phases> rounds{1, 10, 1, 1};
constexpr int barriers = rounds[1];
constexpr std::chrono::minutes timeout{5};

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "world_bench: {}\n", what);
  std::_Exit(1);
}

void require(const Status& status) {
  if (!status) fail(status.error().what());
}

/// Milliseconds of all threads of this process.
double processor_time() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto ms = [](const timeval& time) { return time.tv_sec * 1e3 + time.tv_usec * 1e-3; };
  return ms(used.ru_utime) + ms(used.ru_stime);
}

double milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

/// Keeps the threads that start from here on to the first core that this process may use, if they
/// are the coordinator's, else to the others.
void keep_apart(bool is_coordinator) {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0 || CPU_COUNT(&cores) < 2) return;
  int first = 0;
  while (!CPU_ISSET(first, &cores)) ++first;
  CPU_CLR(first, &cores);
  if (is_coordinator) {
    CPU_ZERO(&cores);
    CPU_SET(first, &cores);
  }
  sched_setaffinity(0, sizeof cores, &cores);
}

/// Lets the members of a process into one phase after the other. Who is through sleeps until the
/// next one begins: to wake up in between, or to look again and again whether the others are
/// through as std::barrier does, would take time from them.
class Phases {
 public:
  explicit Phases(int members) : members_(members) {}

  /// Begins the next phase and waits until all members are through.
  void pass() {
    std::unique_lock lock(mutex_);
    through_ = 0;
    ++begun_;
    begins_.notify_all();
    ends_.wait(lock, [&] { return through_ == members_; });
  }

  /// A member's part of a phase (0, 1, …), once that has begun.
  template <class Part>
  void take_part(int phase, const Part& part) {
    {
      std::unique_lock lock(mutex_);
      begins_.wait(lock, [&] { return begun_ > phase; });
    }
    part();
    const std::lock_guard lock(mutex_);
    if (++through_ == members_) ends_.notify_one();
  }

 private:
  const int members_;
  std::mutex mutex_;
  std::condition_variable begins_;
  std::condition_variable ends_;
  int begun_ = 0;
  int through_ = 0;
};

void live(const MemberOptions& options, Phases& steps) {
  std::unique_ptr<Member> member;
  steps.take_part(0, [&] {
    auto joined = Member::join(options);
    if (!joined) fail(joined.error().what());
    member = std::move(joined.value());
    if (member->rank() != options.local_rank) fail("a rank that was not meant");
  });
  steps.take_part(1, [&] {
    for (int round = 0; round < barriers; ++round) require(member->barrier("all"));
  });
  steps.take_part(2, [&] { require(member->leave()); });
  // Only when all have left: connections that close would take part in the others' leaving.
  steps.take_part(3, [&] { member.reset(); });
}

/// A process of members; the parent says when a phase begins.
int play(const std::string& endpoint, const std::string& key, int first, int count, int size) {
  keep_apart(false);
  MemberOptions options;
  options.key = JobKey::parse(key);
  options.coordinator = endpoint;
  options.run = "bench";
  options.size = size;
  options.timeout = timeout;
  options.messaging = std::make_shared<MessagingContext>(1, 16 * members_of_a_process);
  Phases steps(count);
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    options.local_rank = first + i;
    threads.emplace_back([&steps, options] { live(options, steps); });
  }
  const long before = test::own_memory("VmRSS");
  for (int phase = 0; phase < phases; ++phase) {
    await_word();
    steps.pass();
    fmt::print("{}\n", test::own_memory("VmRSS") - before);
    std::fflush(stdout);
  }
  return 0;
}

std::vector<Child> start_members(const Coordinator& coordinator, const JobKey& key, int size) {
  std::vector<Child> children;
  for (int first = 0; first < size; first += members_of_a_process)
    children.emplace_back(
        Words{"members", coordinator.endpoint(), key.text(), std::to_string(first),
              std::to_string(std::min(members_of_a_process, size - first)), std::to_string(size)});
  std::this_thread::sleep_for(std::chrono::seconds(1));  // their own start is not measured
  return children;
}

/// A process that holds one world's coordinator.
int hold(int size) {
  const JobKey key = JobKey::generate();
  const long before = test::own_memory("VmRSS");
  CoordinatorOptions options;
  options.key = key;
  options.run = "bench";
  options.size = size;
  options.timeout = timeout;
  cpu_set_t all;
  sched_getaffinity(0, sizeof all, &all);
  keep_apart(true);
  auto coordinator = std::move(Coordinator::start(options).value());
  sched_setaffinity(0, sizeof all, &all);  // what the members' processes inherit
  const std::vector<Child> children = start_members(*coordinator, key, size);
  std::array<double, phases> time{};
  std::array<double, phases> processor{};
  long members = 0;
  long own = 0;
  for (int phase = 0; phase < phases; ++phase) {
    const double used = processor_time();
    const auto start = Clock::now();
    for (const Child& child : children) child.signal('g');
    long total = 0;
    for (const Child& child : children) {
      const std::string kib = child.line();
      if (kib.empty()) fail("a process of members has ended");
      total += std::atol(kib.c_str());
    }
    time[phase] = milliseconds(Clock::now() - start) / rounds[phase];
    processor[phase] = (processor_time() - used) / rounds[phase];
    members = std::max(members, total);
    own = std::max(own, test::own_memory("VmRSS") - before);
  }
  require(coordinator->wait_for_end(timeout));
  const ControlCounters counters = coordinator->counters();
  fmt::print("{} {:.2f} {:.2f} {} {} {} {:.0f}\n", size, fmt::join(time, " "),
             fmt::join(processor, " "), counters.frames, counters.sent, own,
             static_cast<double>(members) / size);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  Words arguments(words + 1, words + count);
  if (arguments.size() == 6 && arguments[0] == "members")
    return play(arguments[1], arguments[2], std::stoi(arguments[3]), std::stoi(arguments[4]),
                std::stoi(arguments[5]));
  if (arguments.size() == 2 && arguments[0] == "coordinator") return hold(std::stoi(arguments[1]));
  int repetitions = 1;
  if (arguments.size() >= 2 && arguments[0] == "-n") {
    repetitions = std::stoi(arguments[1]);
    arguments.erase(arguments.begin(), arguments.begin() + 2);
  }
  if (arguments.empty()) arguments = {"10", "32", "100", "316", "1000"};
  fmt::print(
      "members join barrier leave close cpu_join cpu_barrier cpu_leave cpu_close frames_in "
      "frames_out "
      "coordinator member\n");
  for (int i = 0; i < repetitions; ++i)
    for (const std::string& size : arguments) {
      const std::string line = Child({"coordinator", size}).line();
      if (line.empty()) fail("a coordinator has ended");
      fmt::print("{}\n", line);
      std::fflush(stdout);
    }
  return 0;
}
