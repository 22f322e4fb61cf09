#include "fibers.h"

#include <sys/mman.h>

#include <new>

// Saves the registers that a call must keep, and goes on on another stack.
extern "C" void cuda_on_cpu_switch(void** from, void* to);
asm(R"(.text
.globl cuda_on_cpu_switch
.type cuda_on_cpu_switch,@function
cuda_on_cpu_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.size cuda_on_cpu_switch,.-cuda_on_cpu_switch)");

namespace cuda_on_cpu {
namespace {

constexpr std::size_t guard_bytes = 4096;  // below the stack: an overflow is a fault

}  // namespace

Fiber::Fiber() {
  void* memory = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, guard_bytes, PROT_NONE);
  stack_ = static_cast<char*>(memory) + guard_bytes;
}

Fiber::~Fiber() { munmap(stack_ - guard_bytes, guard_bytes + stack_bytes); }

void Fiber::begin(void (*entry)()) {
  constexpr int saved_registers = 6;
  // The stack pointer is 8 off a multiple of 16 where a function begins, as after a call.
  void** top = reinterpret_cast<void**>(stack_ + stack_bytes) - 2;
  *top = reinterpret_cast<void*>(entry);
  inside_ = top - saved_registers;
}

void Fiber::resume() { cuda_on_cpu_switch(&outside_, inside_); }
void Fiber::suspend() { cuda_on_cpu_switch(&inside_, outside_); }

}  // namespace cuda_on_cpu
