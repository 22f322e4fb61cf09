#include "ops/cpu/parallel.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <thread>
#include <vector>

namespace troupe::cpu {
namespace {

/// How often each of `count` items was passed to the body.
std::vector<int> visits(int threads, std::int64_t count) {
  std::vector<int> seen(static_cast<std::size_t>(count));
  parallel({.threads = threads}, count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
  });
  return seen;
}

std::vector<int> once(std::int64_t count) {
  return std::vector<int>(static_cast<std::size_t>(count), 1);
}

TEST(Parallel, PassesEachItemOnceForAnyNumberOfThreadsInTurn) {
  for (int turn = 0; turn < 300; ++turn)
    for (const int threads : {1, 2, 7, 3, 16})
      for (const std::int64_t count : {0, 1, 2, 5, 100})
        ASSERT_EQ(visits(threads, count), once(count));
}

TEST(Parallel, ServesSeveralThreadsAtOnce) {
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([caller] {
      for (int turn = 0; turn < 2000; ++turn) ASSERT_EQ(visits(2 + caller, 50), once(50));
    });
  for (std::thread& caller : callers) caller.join();
}

TEST(Parallel, RunsInnerLoopsOnTheThreadThatCallsThem) {
  std::atomic<int> inner{0};
  parallel({.threads = 4}, 4, 1, [&](std::int64_t, std::int64_t) {
    const auto caller = std::this_thread::get_id();
    parallel({.threads = 4}, 8, 1, [&](std::int64_t begin, std::int64_t end) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      inner += static_cast<int>(end - begin);
    });
  });
  EXPECT_EQ(inner, 4 * 8);
}

TEST(Parallel, GivesTheCallerAllItemsWhereNoThreadCanBeMade) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, std::size_t{1} << 50), 0);  // no such stack fits
  std::thread([&] {  // a thread that has no helpers yet
    ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
    int sum = 0;
    parallel({.threads = 3}, 10, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) sum += static_cast<int>(i);
    });
    ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
    EXPECT_EQ(sum, 45);
  })
      .join();
}

}  // namespace
}  // namespace troupe::cpu
