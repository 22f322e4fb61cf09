#pragma once
#include <cstddef>

namespace cuda_on_cpu {

/// A function with a stack of its own, on the thread that resumes it. x86-64.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// `entry`, which never returns, runs at the next resume(), on an empty stack.
  void begin(void (*entry)());
  /// Goes on with it until it suspends itself.
  void resume() { go_on(outside_, inside_); }
  /// Called on the fiber.
  void suspend() { go_on(inside_, outside_); }

  bool has_on_stack(const void* address) const {
    return static_cast<std::size_t>(static_cast<const char*>(address) - stack_) < stack_bytes;
  }

 private:
  // Inline and with a jump: the processor predicts where a return goes by the calls before it,
  // which were those of another stack.
  [[gnu::always_inline]] static void go_on(void*& left, void* stack) {
    void** from = &left;
    asm volatile(
        "leaq -128(%%rsp), %%rsp\n"  // the red zone
        "pushq %%rbp\n"
        "leaq 1f(%%rip), %%rax\n"
        "pushq %%rax\n"
        "movq %%rsp, (%%rdi)\n"
        "movq %%rsi, %%rsp\n"
        "popq %%rax\n"
        "jmpq *%%rax\n"
        "1: popq %%rbp\n"
        "leaq 128(%%rsp), %%rsp\n"
        : "+D"(from), "+S"(stack)
        :
        : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0",
          "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
          "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
  }

  static constexpr std::size_t stack_bytes = 128 << 10;
  char* stack_;
  std::size_t offset_;       ///< of the stack's bottom in its page
  void* inside_ = nullptr;   ///< the stack pointer while it is suspended
  void* outside_ = nullptr;  ///< that of its resumer
};

}  // namespace cuda_on_cpu
