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
  void resume();
  /// Called on the fiber.
  void suspend();

  bool has_on_stack(const void* address) const {
    return static_cast<std::size_t>(static_cast<const char*>(address) - stack_) < stack_bytes;
  }

 private:
  static constexpr std::size_t stack_bytes = 128 << 10;
  char* stack_;
  void* inside_ = nullptr;   ///< the stack pointer while it is suspended
  void* outside_ = nullptr;  ///< that of its resumer
};

}  // namespace cuda_on_cpu
