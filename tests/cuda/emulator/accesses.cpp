// g++ -fsanitize=thread calls these functions at every access of a kernel to memory; its library
// (libtsan) is not linked. Host code of the same sources calls them too.

#include <fmt/format.h>

#include <cstddef>
#include <mutex>

#include "block.h"
#include "device.h"
#include "violations.h"

namespace cuda_on_cpu {
namespace {

void access_by_host(const void* address, std::size_t bytes, Mode mode) {
  Memory& memory = Memory::get();
  if (!memory.contains(address)) return;
  const Operation operation = Device::get().host_operation();
  const std::lock_guard lock(memory.mutex());
  Region* region = memory.find(address);
  if (!region) return;
  if (region->place == Place::device)
    return report(fmt::format("{} {} device memory", operation.name,
                              mode == Mode::read ? "reads" : "writes"));
  Checker(operation).access(*region, address, bytes, mode);
}

void access(const void* address, std::size_t bytes, Mode mode) {
  if (BlockRunner* block = BlockRunner::current())
    block->access(address, bytes, mode);
  else
    access_by_host(address, bytes, mode);
}

}  // namespace
}  // namespace cuda_on_cpu

using cuda_on_cpu::access;
using cuda_on_cpu::Mode;

extern "C" {

// Their names are the compiler's.
#define TROUPE_ACCESSES(bytes)                                                 \
  void __tsan_read##bytes(void* p) { access(p, bytes, Mode::read); }           \
  void __tsan_write##bytes(void* p) { access(p, bytes, Mode::write); }         \
  void __tsan_unaligned_read##bytes(void* p) { access(p, bytes, Mode::read); } \
  void __tsan_unaligned_write##bytes(void* p) { access(p, bytes, Mode::write); }
TROUPE_ACCESSES(1)
TROUPE_ACCESSES(2)
TROUPE_ACCESSES(4)
TROUPE_ACCESSES(8)
TROUPE_ACCESSES(16)
#undef TROUPE_ACCESSES
void __tsan_read_range(void* p, std::size_t bytes) { access(p, bytes, Mode::read); }
void __tsan_write_range(void* p, std::size_t bytes) { access(p, bytes, Mode::write); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

// Host code counts uses of shared pointers so. Kernels have no atomics.
unsigned __tsan_atomic32_fetch_add(volatile unsigned* p, unsigned v, int) {
  return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);
}

// And -fsanitize=alignment this one, at each access whose address is not aligned for its type.
struct UbsanPlace {
  const char* file;
  std::uint32_t line, column;
};
void __ubsan_handle_type_mismatch_v1(const UbsanPlace* place, void* address) {
  cuda_on_cpu::BlockRunner* block = cuda_on_cpu::BlockRunner::current();
  {
    const std::string what = fmt::format("uses a misaligned address at {}:{}: {}", place->file,
                                         place->line, fmt::ptr(address));
    if (block)
      block->report_here(what);
    else
      cuda_on_cpu::report(fmt::format("the host {}", what));
  }
  if (block) block->stop_thread();
}

// The linker gives all calls of memcpy in the tests' program to this one (--wrap=memcpy), so that
// copies between pinned and other memory by the host are seen.
void* __real_memcpy(void* to, const void* from, std::size_t bytes);
void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) {
    access(from, bytes, Mode::read);
    access(to, bytes, Mode::write);
  }
  return __real_memcpy(to, from, bytes);
}

}  // extern "C"
