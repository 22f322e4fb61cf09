#pragma once
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "checker.h"
#include "clock.h"
#include "cuda_on_cpu.h"
#include "fibers.h"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

namespace cuda_on_cpu {

struct Launch {
  dim3 grid, block;
  Closure kernel;
};

/// Runs the blocks of one kernel after another on the calling thread, and their threads as fibers.
/// A thread that never waits leaves its fiber to the next.
class BlockRunner {
 public:
  /// A seed other than 0 draws the order of the threads. The places: EmulationOptions.
  BlockRunner(const Launch& launch, const Operation& operation, std::uint64_t seed,
              std::uintptr_t checked_places);

  /// False if the block stands still, which was reported.
  bool run(std::uint64_t block);

  /// That of the thread that calls; null outside of kernels.
  static BlockRunner* current();
  // Called by the threads.
  uint3 thread_index() const;
  uint3 block_index() const;
  const Launch& launch() const { return launch_; }
  int lane() const { return static_cast<int>(running_ % 32); }
  int sync_block(int value, const Where& where);
  std::uint64_t meet_warp(WarpOperation operation, unsigned mask, std::uint64_t bits, int from);
  void access(const void* address, std::size_t bytes, Mode mode);
  /// The thread does not go on, nor does its block: the processor may end the process there.
  void stop_thread();
  void report_here(const std::string& what) const;

 private:
  enum class Wait : std::uint8_t { nothing, block, warp, ended, stopped };
  struct Thread {
    Wait wait = Wait::nothing;
    Fiber* fiber = nullptr;
    Where barrier;  ///< at which __syncthreads
    // Its operation with other lanes of the warp.
    WarpOperation operation = WarpOperation::barrier;
    unsigned mask = 0;
    std::uint64_t bits = 0, result = 0;
    int from = 0;
  };
  struct Warp {
    unsigned live = 0;  ///< lanes
    std::uint16_t barriers = 0;
  };

  static void run_threads();
  void run_thread(unsigned thread);
  void begin_block(std::uint64_t block);
  void start_threads();
  bool advance();
  void resume(unsigned thread);
  void suspend();
  void release_barrier();
  bool complete_warp(unsigned thread);
  void exchange(Thread* lanes, unsigned mask);
  void abandon();
  bool is_checked(const void* address) const;
  Region* region_of(const void* address);
  bool is_argument_or_constant(const void* address) const;

  const Launch& launch_;
  const Operation& operation_;
  Checker checker_;
  Memory& memory_;
  Region& shared_;
  std::mt19937_64 random_;
  bool shuffles_;
  std::uint64_t checked_factor_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<unsigned> order_;
  std::size_t next_ = 0;  ///< in order_: the first thread that has not begun
  unsigned running_ = 0;
  unsigned live_ = 0, at_barrier_ = 0;
  int sum_ = 0, last_sum_ = 0;  ///< of values given to the barrier
  std::uint64_t block_ = 0;
  std::uint16_t barriers_ = 0;
};

/// Runs the kernel to its end; blocks go in an order drawn from a seed other than 0. With the
/// memory's lock.
void run_grid(const Launch& launch, const Operation& operation, std::uint64_t seed,
              std::uintptr_t checked_places);

}  // namespace cuda_on_cpu
