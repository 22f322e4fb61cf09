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
  /// Draws which stream runs next, and the order of blocks and threads; 0: in their own order.
  std::uint64_t seed = 0;
  Pace pace = Pace::thread;
  /// Accesses of kernels are checked at each n-th place of 16 bytes: 1 for tests of kernels; a
  /// larger number saves time in whole runs, where a missing wait affects whole tensors.
  std::uintptr_t checked_places = 1;
  /// False: kernels, copies and fills do nothing and are not checked, and nobody reads memory that
  /// they would write. For counting what a run gives to a device that would take too long here.
  bool computes = true;
  /// The n-th wait of a stream for an event does nothing; 0: none. Waits count if they put
  /// something in order on a stream that has run kernels or copies.
  std::uint64_t left_out_wait = 0;
  bool refuses_graphs = false;  ///< no memory is left to make a graph ready
  bool refuses_events = false;  ///< or to make an event
  // Of memory; what is allocated at the beginning counts.
  std::size_t device_bytes = SIZE_MAX, pinned_bytes = SIZE_MAX;
  /// Must be free for a kernel to be launched, as for the code of one that is not loaded yet.
  std::size_t code_bytes = 0;
  // What the driver tells of itself and of the device.
  int devices = 1;  ///< 1 or 0
  int driver = 0;   ///< the newest CUDA that it serves, 12040 for 12.4; 0: that of the headers
  int architecture = 90;  ///< with another, no kernel is for the device
  int failure = 700;      ///< the cudaError_t of a device that has failed: an illegal address
};

/// What there is now.
struct Counts {
  int streams = 0, events = 0;
  int graphs = 0;  ///< also those that are not ready to be launched
  int device_blocks = 0, pinned_blocks = 0;
  std::size_t device_bytes = 0, pinned_bytes = 0;
  std::size_t peak_device_bytes = 0;  ///< since the emulation began
  std::uint64_t operations = 0;       ///< done by all streams in this process
  // Calls of this process so far.
  std::uint64_t recordings = 0, stream_waits = 0, host_functions = 0;
  std::uint64_t ordering_waits = 0;  ///< those that EmulationOptions::left_out_wait counts
  /// By the next work of the stream, another wait, or the host, had seen what it was to wait for.
  bool left_out_was_needless = false;
  std::uint64_t launched_graphs = 0;
};

/// A time in which the device is as a test wants it, one at a time. Otherwise it goes on as soon as
/// it can, and variables may say more: CUDA_ON_CPU_SEED, _PLACES, _DEVICE_BYTES, _DEVICES, _DRIVER,
/// _ARCHITECTURE and _FAILURE as above, and _FAIL_AFTER as below, from the process's begin. With
/// CUDA_ON_CPU_CUBLASLT=0, cuBLASLt has no algorithm for any product.
class Emulation {
 public:
  explicit Emulation(const EmulationOptions& options);
  /// Does all work that is left; if the device has failed, drops it and resets the device.
  ~Emulation();
  Emulation(const Emulation&) = delete;
  Emulation& operator=(const Emulation&) = delete;

  /// Does the next task of a stream, after what is being done; false if none can go on.
  static bool advance();
  /// The n-th kernel, copy or other task from now fails. As on a real device, no task is done
  /// after it, host functions among them, and all later calls answer EmulationOptions::failure.
  static void fail_after(std::uint64_t n);
};

Counts counts();

/// Kernels, copies and fills that the calling thread has given to streams.
std::uint64_t given_by_thread();

}  // namespace cuda_on_cpu
