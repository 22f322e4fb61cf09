#pragma once
#include <cstddef>

namespace troupe::testing {

/// Memory of a device of the tests, which only kernels can touch: it is mapped without access
/// (PROT_NONE) and opened while a kernel runs. Any other access by the host ends the process with
/// SIGSEGV, after a message that names the violation and the calls that led to it.
///
/// While a kernel runs, other threads can touch the memory too: run one thread to find everything.

/// A block of whole pages, aligned to them; null when memory is out. Blocks are never given back,
/// since the allocators above keep them for reuse.
void* allocate_guarded(std::size_t bytes);

/// Opens the memory as long as it lives.
class OpenedMemory {
 public:
  OpenedMemory();
  ~OpenedMemory();
  OpenedMemory(const OpenedMemory&) = delete;
  OpenedMemory& operator=(const OpenedMemory&) = delete;
};

/// From now on violations are named. Throws if they cannot be.
void watch_guarded_memory();

}  // namespace troupe::testing
