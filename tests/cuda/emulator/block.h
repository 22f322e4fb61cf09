#pragma once
#include <cstdint>
#include <memory>
#include <random>
#include <span>
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
  static BlockRunner* current() { return current_; }
  // Called by the threads.
  uint3 thread_index() const;
  uint3 block_index() const;
  const Launch& launch() const { return launch_; }
  int lane() const { return static_cast<int>(running_ % 32); }
  void sync_block(const Where& where);
  std::uint64_t meet_warp(WarpOperation operation, unsigned mask, std::uint64_t bits, int from);
  void access(const void* address, std::size_t bytes, Mode mode) {
    if (is_checked(address)) check(address, bytes, mode);
  }
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
  void shuffle_threads();
  /// Of the warp that is the n-th to run.
  std::span<unsigned> threads_of(std::size_t warp);
  void start_warp(std::size_t warp);
  bool advance();
  bool advance_warp(std::size_t warp);
  void resume(unsigned thread);
  void suspend();
  void release_barrier();
  bool complete_warp(unsigned thread);
  void exchange(Thread* lanes, unsigned mask);
  void abandon();
  /// Whether checked_places divides the number of the place, without a division, which took a third
  /// of all time: Lemire, Kaser, Kurz, "Faster remainder by direct computation" (2019),
  /// section 3.2.
  bool is_checked(const void* address) const {
    const auto place = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(address) / 16);
    return place * checked_factor_ <= checked_factor_ - 1;
  }
  void check(const void* address, std::size_t bytes, Mode mode);
  Region* region_of(const void* address);
  bool is_argument_or_constant(const void* address) const;

  static inline thread_local constinit BlockRunner* current_ = nullptr;
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
  std::vector<unsigned> warp_order_;
  std::vector<unsigned> order_;   ///< of threads, warp after warp
  std::span<unsigned> starting_;  ///< in order_: those of the warp that have not begun
  unsigned running_ = 0;
  unsigned live_ = 0, at_barrier_ = 0;
  std::uint64_t block_ = 0;
  std::uint16_t barriers_ = 0;
};

/// Runs the kernel to its end; blocks go in an order drawn from a seed other than 0. With the
/// memory's lock.
void run_grid(const Launch& launch, const Operation& operation, std::uint64_t seed,
              std::uintptr_t checked_places);

}  // namespace cuda_on_cpu
