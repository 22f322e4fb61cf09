#include "fibers.h"

#include <sys/mman.h>

#include <new>

namespace cuda_on_cpu {
namespace {

constexpr std::size_t guard_bytes = 4096;  // below the stack: an overflow is a fault

// At equal places of their pages, the stacks of a block would share a few lines of the cache.
std::size_t next_offset() {
  thread_local std::size_t count = 0;
  return ++count * 192 % 4096;
}

}  // namespace

Fiber::Fiber() : offset_(next_offset()) {
  void* memory = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, guard_bytes, PROT_NONE);
  stack_ = static_cast<char*>(memory) + guard_bytes;
}

Fiber::~Fiber() { munmap(stack_ - guard_bytes, guard_bytes + stack_bytes); }

void Fiber::begin(void (*entry)()) {
  // The stack pointer is 8 off a multiple of 16 where a function begins, as after a call.
  void** top = reinterpret_cast<void**>(stack_ + stack_bytes - offset_) - 2;
  *top = reinterpret_cast<void*>(entry);
  inside_ = top;
}

}  // namespace cuda_on_cpu
