// The thread that does the host's part of copies and fences, on the emulator.

#include "ops/cuda/host_steps.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "emulated.h"
#include "emulator/emulation.h"
#include "ops/cuda/stream.h"
#include "ops/on_device.h"
#include "runtime/error.h"
#include "stream_work.h"

namespace troupe::testing {
namespace {

using std::chrono::milliseconds;

/// Holds up all steps of its stream that were added after it.
struct Gate final : cuda::HostStep {
  bool try_run() override {
    ++tries;
    return open;
  }
  std::atomic<bool> open{false};
  std::atomic<int> tries{0};
};

// The device has the bytes copied, but the host has not, when the context is lost.
TEST(CudaHostSteps, ThatFindTheContextLostFailTheCopyThatWaitsForThem) {
  const cuda_on_cpu::Emulation emulation({.pace = cuda_on_cpu::Pace::thread});
  EmulatedStream stream, other;
  const Tensor x = on_device(stream.get(), on_cpu_filled(7));
  const Tensor y = on_device(other.get(), on_cpu_filled(1));
  synchronize(stream.get());
  synchronize(other.get());
  const auto gate = std::make_shared<Gate>();
  cuda::add_host_step(stream.get(), gate);
  auto copied = std::async(std::launch::async, [&] { (void)on_cpu(stream.get(), x); });
  std::this_thread::sleep_for(milliseconds(100));  // after which it waits for the host
  ASSERT_EQ(copied.wait_for(milliseconds(0)), std::future_status::timeout);
  cuda_on_cpu::Emulation::fail_after(1);
  (void)doubled(other.get(), y);
  EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);
  gate->open = true;
  try {
    copied.get();
    ADD_FAILURE() << "a tensor that was never written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_lost);
  }
}

[[noreturn]] void exit_with_a_step_left() {
  static const auto gate = std::make_shared<Gate>();
  std::atexit([] {  // as CUDA's own, which was started before
    const int before = gate->tries;
    std::this_thread::sleep_for(milliseconds(200));
    if (gate->tries != before) std::_Exit(1);
  });
  cuda::HostSteps steps;
  steps.add(gate);
  while (gate->tries == 0) std::this_thread::yield();
  std::exit(0);
}

TEST(CudaHostSteps, AreLeftWhenTheProcessExits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with_a_step_left(), ::testing::ExitedWithCode(0), "");
}

/// Takes a while.
struct LongStep final : cuda::HostStep {
  bool try_run() override {
    begun = true;
    std::this_thread::sleep_for(milliseconds(200));
    ended = true;
    return true;
  }
  std::atomic<bool> begun{false}, ended{false};
};

[[noreturn]] void exit_during_a_step() {
  static const auto step = std::make_shared<LongStep>();
  std::atexit([] {
    if (!step->ended) std::_Exit(1);
  });
  cuda::HostSteps steps;
  steps.add(step);
  while (!step->begun) std::this_thread::yield();
  std::exit(0);
}

TEST(CudaHostSteps, ThatHaveBegunEndBeforeTheProcessExits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_during_a_step(), ::testing::ExitedWithCode(0), "");
}

[[noreturn]] void exit_while_a_thread_waits() {
  static const auto gate = std::make_shared<Gate>();
  static std::future<void> waits;
  std::atexit([] {
    try {
      waits.get();
    } catch (const Error&) {
      std::_Exit(0);
    }
    std::_Exit(1);
  });
  static auto* steps = new cuda::HostSteps;  // a thread may come to it after the exit
  steps->add(gate);
  waits = std::async(std::launch::async, [] { steps->wait(); });
  std::this_thread::sleep_for(milliseconds(100));
  std::exit(2);
}

TEST(CudaHostSteps, ThatAreLeftAtTheExitFailTheWaitForThem) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_while_a_thread_waits(), ::testing::ExitedWithCode(0), "");
}

/// Writes its number to a list.
struct Numbered final : cuda::HostStep {
  Numbered(std::vector<int>* list, int own, bool takes_time)
      : numbers(list), number(own), long_step(takes_time) {}
  bool try_run() override {
    numbers->push_back(number);
    return true;
  }
  bool is_long() const override { return long_step; }
  std::vector<int>* numbers;
  int number;
  bool long_step;
};

TEST(CudaHostSteps, OfACopyLetThoseOfOtherStreamsGoBetweenItsPieces) {
  const auto gate = std::make_shared<Gate>();
  std::vector<int> order;
  cuda::HostSteps copies, fences;
  copies.add(gate);
  fences.add(gate);
  for (const int piece : {1, 2}) copies.add(std::make_shared<Numbered>(&order, piece, true));
  for (const int fence : {3, 4, 5}) fences.add(std::make_shared<Numbered>(&order, fence, false));
  gate->open = true;
  copies.wait();
  fences.wait();
  ASSERT_EQ(order.size(), 5u);
  EXPECT_EQ(order.back(), 2);
}

}  // namespace
}  // namespace troupe::testing
