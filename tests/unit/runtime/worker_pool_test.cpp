#include "runtime/worker_pool.h"

#include <gmock/gmock.h>
#include <pthread.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <future>
#include <numeric>
#include <optional>

namespace troupe {
namespace {

const auto ignore = [](const auto&) {};

/// A job that says when it has begun and waits until it is let go.
struct Gate {
  std::promise<void> begun, opened;
  auto job() {
    return [this, open = opened.get_future().share()] {
      begun.set_value();
      open.wait();
    };
  }
};

TEST(WorkerPool, DoesJobsInTheOrderInWhichTheyCame) {
  std::vector<int> seen;
  {
    WorkerPool background({.name = "test"});
    for (int i = 0; i < 200; ++i)
      EXPECT_TRUE(background.submit([&seen, i] { seen.push_back(i); }, ignore));
  }
  std::vector<int> all(200);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(seen, all);
}

TEST(WorkerPool, GivesValuesAndErrorsBackAsResults) {
  std::optional<Result<int>> value;
  std::optional<Status> error, system, other;
  std::optional<Result<int>> refused;
  {
    WorkerPool background({.name = "test"});
    background.submit([] { return 7; }, [&](Result<int> r) { value = std::move(r); });
    background.submit([] { throw Error(ErrorCode::bad_file, "torn", "another"); },
                      [&](Status r) { error = std::move(r); });
    background.submit([] { std::filesystem::create_directory("/proc/none/at/all"); },
                      [&](Status r) { system = std::move(r); });
    background.submit([] { throw std::out_of_range("far"); },
                      [&](Status r) { other = std::move(r); });
    background.submit([]() -> Result<int> { return Error(ErrorCode::io, "full"); },
                      [&](Result<int> r) { refused = std::move(r); });
  }
  EXPECT_EQ(value->value(), 7);
  EXPECT_EQ(error->error().code(), ErrorCode::bad_file);
  EXPECT_EQ(error->error().remedy(), "another");
  EXPECT_EQ(system->error().code(), ErrorCode::io);
  EXPECT_EQ(other->error().code(), ErrorCode::internal);
  EXPECT_EQ(refused->error().message(), "full");
}

TEST(Attempt, ReportsAlsoWhatIsNoException) {
  const Status status = attempt([] { throw 42; });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::internal);
}

TEST(WorkerPool, RefusesWhatIsMoreThanMayWait) {
  Gate gate;
  int done = 0;
  const auto count = [&done] { ++done; };
  WorkerPool background({.name = "test", .capacity = 2});
  EXPECT_TRUE(background.try_submit(gate.job(), ignore));
  gate.begun.get_future().wait();  // it waits no more: both places are free
  EXPECT_TRUE(background.try_submit(count, ignore));
  EXPECT_TRUE(background.try_submit(count, ignore));
  EXPECT_FALSE(background.try_submit(count, ignore));
  gate.opened.set_value();
  EXPECT_TRUE(background.submit(count, ignore));  // waits for a place
  background.drain();
  EXPECT_EQ(done, 3);
}

TEST(WorkerPool, DoesAJobWithinTheCallWhereItHasNoThreads) {
  WorkerPool background({.name = "test", .threads = 0});
  std::thread::id where;
  EXPECT_TRUE(background.try_submit([&] { where = std::this_thread::get_id(); }, ignore));
  EXPECT_EQ(where, std::this_thread::get_id());
  background.drain();
  background.stop();
  EXPECT_FALSE(background.try_submit([] {}, ignore));
}

TEST(WorkerPool, FinishesOrDropsWhatWaitsAtItsEnd) {
  for (const bool finishes : {true, false}) {
    Gate gate;
    std::atomic<int> done = 0;
    WorkerPool background({.name = "test", .finishes = finishes});
    EXPECT_TRUE(background.submit(gate.job(), ignore));
    gate.begun.get_future().wait();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(background.submit([&] { ++done; }, ignore));
    std::thread stopping([&] { background.stop(); });
    while (background.submit([] {}, ignore)) {
    }  // until it is full, then until it is stopped
    gate.opened.set_value();
    stopping.join();
    EXPECT_EQ(done, finishes ? 3 : 0);
    EXPECT_FALSE(background.submit([] {}, ignore));
  }
}

TEST(WorkerPool, SharesJobsOverItsThreadsAndNamesThem) {
  std::array<Gate, 3> gates;
  std::atomic<int> named = 0;
  {
    WorkerPool background({.name = "a name that is long", .threads = 3});
    for (Gate& gate : gates)
      background.submit(
          [&named, work = gate.job()]() mutable {
            work();
            std::array<char, 16> name{};
            pthread_getname_np(pthread_self(), name.data(), name.size());
            if (std::string(name.data()) == "a name that is ") ++named;
          },
          ignore);
    for (Gate& gate : gates) gate.begun.get_future().wait();  // all three at once
    for (Gate& gate : gates) gate.opened.set_value();
  }
  EXPECT_EQ(named, 3);
}

TEST(WorkerPool, LetsWhoeverComputesFinishFirst) {
  const int own = ::sched_getscheduler(0);
  std::atomic<int> policy = -1;
  WorkerPool background({.name = "test"});
  background.submit([&policy] { policy = ::sched_getscheduler(0); }, ignore);
  background.drain();
  EXPECT_EQ(policy, own == SCHED_OTHER ? SCHED_BATCH : own) << "who chose another keeps it";
  EXPECT_EQ(::sched_getscheduler(0), own) << "only its own threads";
}

TEST(WorkerPool, RefusesNumbersThatCannotWork) {
  EXPECT_THROW(WorkerPool({.name = "test", .threads = -1}), Error);
  EXPECT_THROW(WorkerPool({.name = "test", .capacity = 0}), Error);
}

}  // namespace
}  // namespace troupe
