#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/tensor/device.h"

namespace troupe::testing {

/// A device whose work is not done when a call returns. Its kernels are the CPU's and compute at
/// once, so that the bits are the CPU's; its memory is guarded (guarded_memory.h). What comes later
/// is all that the host could notice: fences pass, and copies to the CPU's memory, which is filled
/// with NaN at first, arrive. A copy from the CPU's memory reads it again then.
///
/// Vector clocks decide whether accesses are in order, not time: each kernel's reads and writes are
/// compared with the last ones of the same block of memory on other streams. They have to be
/// ordered by a fence for which the stream waits, or whose end the host has seen before. What is
/// not is a violation, whatever the numbers are, and so is an actor that blocks its thread until
/// its stream is done. Blocks that are freed and reused keep their history.
Device delayed_device();

/// Who makes the work of the device go on.
enum class Pace : std::uint8_t {
  by_hand,  ///< calls of advance(), and hosts that wait for a stream
  thread,   ///< a thread of the device, with pauses
};

/// The time in which the work of the device is delayed, one at a time; outside of it all work is
/// done when a call returns. The seed draws in which order streams go on.
class DelayedWork {
 public:
  DelayedWork(std::uint64_t seed, Pace pace);
  ~DelayedWork();  ///< does all work that is left
  DelayedWork(const DelayedWork&) = delete;
  DelayedWork& operator=(const DelayedWork&) = delete;

  /// Does the next piece of work of a stream; false if no stream has any.
  static bool advance();
  /// For RunOptions::outside: work goes on when no message is left and, with most seeds, now and
  /// then before.
  std::function<bool(bool idle)> outside() const;
  /// The work before the n-th fence from now fails, and so does all later work of that stream.
  static void fail_at_fence(std::uint64_t n);
  /// From now on errors of streams that are opened end the run, to the end of this object's life.
  static void let_failures_last();
  /// The fences that have passed.
  static std::uint64_t passed();
  /// The violations so far: kernel, argument and both streams of an access, or the actor that
  /// waits.
  static std::vector<std::string> violations();

 private:
  std::uint64_t seed_;
};

}  // namespace troupe::testing
