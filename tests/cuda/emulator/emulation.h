#pragma once
// What tests ask of the emulator, with the texts of violations.h.

#include <cstddef>
#include <cstdint>

namespace cuda_on_cpu {

/// When the work of streams goes on.
enum class Pace : std::uint8_t {
  thread,   ///< as soon as it can
  lazy,     ///< when a thread of the host waits, or has given nothing for a millisecond
  by_hand,  ///< when a thread of the host waits, and by Emulation::advance()
};

struct EmulationOptions {
  /// Draws which stream goes on, and the order of blocks and threads; 0: in their own order.
  std::uint64_t seed = 0;
  Pace pace = Pace::thread;
  /// Accesses of kernels are checked at each n-th place of 16 bytes: 1 for tests of kernels; a
  /// larger number for whole runs, whose mistakes are those of whole tensors.
  std::uintptr_t checked_places = 1;
  /// False: kernels, copies and fills do nothing and are not checked, and nobody reads memory that
  /// they would write. For counting what a run gives to a device that would take too long here.
  bool computes = true;
  // Of memory; what is allocated at the beginning counts.
  std::size_t device_bytes = SIZE_MAX, pinned_bytes = SIZE_MAX;
};

/// What there is now.
struct Counts {
  int streams = 0, events = 0;
  int device_blocks = 0, pinned_blocks = 0;
  std::size_t device_bytes = 0, pinned_bytes = 0;
  std::size_t peak_device_bytes = 0;  ///< since the emulation began
  std::uint64_t operations = 0;       ///< done by all streams in this process
  // Calls of this process so far.
  std::uint64_t recordings = 0, stream_waits = 0, host_functions = 0;
};

/// A time in which the device is as a test wants it, one at a time. Otherwise it has the seed
/// CUDA_ON_CPU_SEED or 0, checks each CUDA_ON_CPU_PLACES-th place, and goes on as soon as it can.
class Emulation {
 public:
  explicit Emulation(const EmulationOptions& options);
  /// Does all work that is left; if the device has failed, drops it and mends the device.
  ~Emulation();
  Emulation(const Emulation&) = delete;
  Emulation& operator=(const Emulation&) = delete;

  /// Does the next task of a stream; false if none can go on.
  static bool advance();
  /// The n-th kernel, copy or other task from now fails. As on a real device, no task is done
  /// after it, host functions among them, and all later calls answer cudaErrorIllegalAddress.
  static void fail_after(std::uint64_t n);
};

Counts counts();

/// Kernels, copies and fills that the calling thread has given to streams.
std::uint64_t given_by_thread();

}  // namespace cuda_on_cpu
